# What a worker's container runs: the guide's two lines, and what the development cluster lacks or a test wants to know.
cp /config/connect.properties /tmp/connect.properties
name=$(hostname -f)
echo "rest.advertised.host.name=$name" >> /tmp/connect.properties
(   # No DNS is served here; a headless Service would make the name known to the other workers.
    flock 9
    echo "$(hostname -i) $name" > "/shared/names/$POD_NAME"
    cat /shared/names/* > /shared/hosts.new
    mv /shared/hosts.new /shared/hosts
) 9> /shared/lock
export TICK_FILE="/shared/ticks/${POD_NAME}_${POD_UID}_$(date +%s%N).ticks"
# As kafka-run-class.sh does.
exec /opt/java/bin/java $KAFKA_HEAP_OPTS $KAFKA_OPTS $WORKER_OPTS -cp '/opt/application/*' \
    org.apache.kafka.connect.cli.ConnectDistributed /tmp/connect.properties
