"""Spell every name that other programs read, in one place.

A label, annotation or field manager is an interface: the admission policy writes it, the operator verifies it, users
grep for it. Spelled twice it would drift. Sources: design of the resources; KEP-4017 for the pod index label.
"""

from typing import Final

GROUP: Final = "staticgroup.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

STATIC_GROUP_KIND: Final = "StaticGroup"
STATIC_GROUP_PLURAL: Final = "staticgroups"
KAFKA_CONNECTION_KIND: Final = "KafkaConnection"
KAFKA_CONNECTION_PLURAL: Final = "kafkaconnections"
CLUSTER_KAFKA_CONNECTION_KIND: Final = "ClusterKafkaConnection"
CLUSTER_KAFKA_CONNECTION_PLURAL: Final = "clusterkafkaconnections"

FIELD_MANAGER: Final = "staticgroup-operator"

INSTANCE_ID_ANNOTATION: Final = f"{GROUP}/instance-id"
SESSION_TIMEOUT_ANNOTATION: Final = f"{GROUP}/session-timeout-ms"

# Environment variable with metadata.name, injected in front of the ids that the kubelet composes of it.
POD_NAME_VARIABLE: Final = "STATICGROUP_POD_NAME"

# Read by the agent in a Connect worker, in place of the worker's own scheduled.rebalance.max.delay.ms; set by users.
REBALANCE_DELAY_VARIABLE: Final = "STATICGROUP_CONNECT_REBALANCE_DELAY_MS"

# In the operator's image, and in the volume of the same name that an init container of the same name fills.
AGENT_NAME: Final = "staticgroup-connect-agent"
AGENT_JAR: Final = f"{AGENT_NAME}.jar"
AGENT_IN_IMAGE: Final = f"/opt/staticgroup/agent/{AGENT_JAR}"
AGENT_MOUNT_PATH: Final = f"/opt/{AGENT_NAME}"

# A worker's start script hands it to its JVM (kafka-run-class.sh).
JAVA_OPTIONS_VARIABLE: Final = "KAFKA_OPTS"

# Set by the StatefulSet controller: always since 1.28 (KEP-4017).
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
REVISION_LABEL: Final = "controller-revision-hash"

OUT_OF_SERVICE_TAINT: Final = "node.kubernetes.io/out-of-service"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"

# Of a Deployment's pods, each followed by `-<scope>`: the annotation with the operator's note; the init container that
# waits for it and the volume of the file that it writes; and, with `-in` behind it, the volume that shows the note.
SLOT_ANNOTATION: Final = f"{GROUP}/slot"
SLOT_NAME: Final = "staticgroup-slot"
SLOT_IN_PATH: Final = "/staticgroup/in"
SLOT_OUT_PATH: Final = "/staticgroup/out"
SLOT_FILE: Final = "env"
# In that init container: the name of the Deployment, which no field of a pod says.
SLOT_WORKLOAD_VARIABLE: Final = "STATICGROUP_WORKLOAD"

# Set by the controllers of Deployments and of Argo's Rollouts.
POD_TEMPLATE_HASH_LABEL: Final = "pod-template-hash"
ROLLOUT_HASH_LABEL: Final = "rollouts-pod-template-hash"

# Policy and webhook of an installation by the guide.
INJECTION_NAME: Final = "staticgroup-inject"
# Policy, and fence, of the pods of Deployments.
SLOTS_NAME: Final = "staticgroup-slots"
