# The operator's image: the package and its locked dependencies on a slim Python, and the agent of Connect workers.
# BASE_IMAGE is any image with Python 3.11 or newer, its venv module and certificate authorities.
# MAVEN_IMAGE is any image with Maven and a JDK 17 or newer, which build the agent of Connect workers; one that has it as
# /agent/staticgroup-connect-agent.jar needs neither.
# EXTRA=msk adds the vendor's signer for logins at Amazon MSK, and botocore with it.
ARG BASE_IMAGE=python:3.11-slim
ARG MAVEN_IMAGE=maven:3.9-eclipse-temurin-17

FROM ${MAVEN_IMAGE} AS agent
WORKDIR /build
COPY operator/connect_agent/pom.xml .
COPY operator/connect_agent/src/main src/main
RUN set -e; \
    if [ ! -f /agent/staticgroup-connect-agent.jar ]; then \
      mvn -B -q -Dmaven.test.skip=true package; \
      mkdir /agent; \
      cp target/staticgroup-connect-agent.jar /agent/; \
    fi

FROM ${BASE_IMAGE} AS build
ARG EXTRA=
WORKDIR /build
# pip lives in a venv of its own, so the one that is shipped never has it.
RUN python3 -m venv /build/pip && python3 -m venv --without-pip /opt/staticgroup
COPY operator/requirements*.lock ./
RUN set -e; \
    /build/pip/bin/pip --python /opt/staticgroup/bin/python install --quiet --no-cache-dir --no-compile \
      --only-binary=:all: --require-hashes --requirement requirements.lock; \
    if [ -n "$EXTRA" ]; then \
      /build/pip/bin/pip --python /opt/staticgroup/bin/python install --quiet --no-cache-dir --no-compile \
        --only-binary=:all: --require-hashes --no-deps --requirement "requirements-$EXTRA.lock"; \
    fi
COPY operator/staticgroup staticgroup
COPY operator/journal journal
COPY operator/kafka_frames kafka_frames
COPY operator/unused_modules.py .
# Test suites and debugging symbols of dependencies are dead weight (libraries that auditwheel renamed are left alone: strip
# would break them). Bytecode is trusted unchecked, because the file system is read-only, and equal from build to build.
RUN set -e; \
    site="$(/opt/staticgroup/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"; \
    cp -R staticgroup journal kafka_frames "$site/"; \
    find "$site" -type d \( -name tests -o -name test -o -name __pycache__ \) -prune -exec rm -rf {} +; \
    command -v strip > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends binutils > /dev/null; }; \
    find "$site" -type f -name '*.so' -not -path '*.libs/*' -exec strip --strip-unneeded {} +; \
    find "$site" -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.c' -o -name '*.h' \) -delete; \
    PYTHONDONTWRITEBYTECODE=1 /opt/staticgroup/bin/python unused_modules.py; \
    PYTHONHASHSEED=0 /opt/staticgroup/bin/python -m compileall -q --invalidation-mode unchecked-hash "$site"; \
    printf '%s\n' '#!/opt/staticgroup/bin/python' 'import sys' 'from staticgroup.cli.command_line import main' 'sys.exit(main())' \
      > /opt/staticgroup/bin/staticgroup; \
    chmod 755 /opt/staticgroup/bin/staticgroup; \
    /opt/staticgroup/bin/python -c 'import aiokafka, confluent_kafka, kio, kopf, kubernetes, prometheus_client, pydantic, journal.journal, staticgroup.kafka.wire'

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="staticgroup" \
      org.opencontainers.image.description="The Kubernetes operator that makes Kafka static membership safe and automatic" \
      org.opencontainers.image.licenses="Apache-2.0"
# Whoever gets in finds no installer.
RUN rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/pip* /usr/local/lib/python3*/ensurepip \
      /usr/lib/python3*/ensurepip /usr/share/python-wheels /usr/lib/python3/dist-packages/pip*
COPY --from=build /opt/staticgroup /opt/staticgroup
# Copied into Connect workers' pods by an init container; nothing here runs it.
COPY --from=agent /agent/staticgroup-connect-agent.jar /opt/staticgroup/agent/staticgroup-connect-agent.jar
ENV PATH=/opt/staticgroup/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /
EXPOSE 8080
ENTRYPOINT ["staticgroup"]
CMD ["run"]
