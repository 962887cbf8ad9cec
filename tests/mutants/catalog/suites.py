"""The tests that must notice: each name stands for the files that hold the rules of one part."""

CLOSES = ("tests/unit/core/test_closes.py",)
TOPICS = ("tests/unit/core/test_topics.py", "tests/unit/core/test_statements.py")
CERTIFICATE = ("tests/unit/core/test_certificate.py",)
CHAIN = ("tests/unit/core/test_chain.py",)
PLAN = (
    "tests/unit/core/test_plan.py",
    "tests/unit/core/test_plan_verification.py",
    "tests/unit/core/test_plan_invariants.py",
)
MEMORY = ("tests/unit/core/test_durable.py",)
EARLIER_TEMPLATES = (
    "tests/unit/runtime/test_earlier_templates.py",
    "tests/unit/runtime/test_colliding_templates.py",
    "tests/unit/runtime/test_suffixes.py",
    "tests/unit/core/test_overlap.py",
)
COLLISIONS = ("tests/unit/runtime/test_shared_workload.py",)
SUFFIXES = ("tests/unit/core/test_suffixes.py",)
FIRST_ISSUE = ("tests/unit/core/test_first_issue.py", "tests/unit/runtime/test_first_issue.py", "tests/unit/api/test_rendering.py")
HISTORIES = (
    "tests/unit/kube/pods/test_book.py",
    "tests/unit/kube/pods/test_any_order.py",
)
TIMEOUTS = ("tests/unit/core/test_timeouts.py",)
BOUNDS = ("tests/unit/core/test_timeout_bounds.py",)
MEASURED = ("tests/unit/core/test_measured.py",)
ABSENCES = ("tests/unit/core/test_absences.py",)
RESERVOIR = ("tests/unit/core/test_reservoir.py",)
DESIRED = ("tests/unit/core/test_desired.py",)
GROUP_CONFIG = ("tests/unit/core/test_group_config.py", "tests/unit/runtime/test_group_config_rounds.py")
AGREEMENT = ("tests/unit/runtime/test_group_agreement.py",)
HOLDS = ("tests/unit/core/test_in_force.py",)
ROUNDS = (
    "tests/unit/runtime/test_reconciler.py",
    "tests/unit/runtime/test_reconciler_writers.py",
    "tests/unit/runtime/test_reconciler_memory.py",
    "tests/unit/runtime/test_secrets_in_rounds.py",
    )
QUEUE = ("tests/unit/runtime/test_work_queue.py",)
REST = ("tests/unit/runtime/test_plan_cache.py",)
FAIRNESS = ("tests/unit/runtime/test_fairness.py",)
CUT = ("tests/unit/runtime/test_round_cut.py",)
SILENCE = ("tests/unit/kafka/test_silence.py",)
CLUSTER_CONNECTIONS = ("tests/unit/runtime/connections/test_cluster_connections.py", "tests/unit/core/test_allowance.py")
TOLD_BACK = ("tests/unit/kafka/test_canaries.py",)
LOGS = ("tests/unit/runtime/process/test_logs.py",)
STATEMENTS = ("tests/unit/core/test_statements.py", "tests/unit/core/test_passing_states.py")
KUBE = ("tests/unit/kube/test_gateway.py",)
BOOK = (
    "tests/unit/kube/pods/test_book.py",
    "tests/unit/kube/pods/test_any_order.py",
    "tests/unit/kube/pods/test_everyday_ends.py",
)
SENTENCES = ("tests/unit/runtime/test_sentences.py",)
ODD = (
    "tests/unit/runtime/test_odd_events.py",
    "tests/unit/kube/pods/test_restores.py",
)
RESTORES = ("tests/unit/kube/pods/test_restores.py", "tests/unit/kube/pods/test_book.py")
NAMESPACES = ("tests/unit/runtime/process/test_namespaces.py",)
HANDOVER = ("tests/unit/kube/pods/test_handover.py",)
POSITION = ("tests/unit/kube/pods/test_position.py",)
GAPS = ("tests/unit/kube/pods/test_gaps.py",)
LEASE = ("tests/unit/kube/test_lease.py", "tests/unit/kube/test_lease_position.py")
BARRIER = ("tests/unit/kube/pods/test_barrier.py",)
CARRIED_IDS = ("tests/unit/kube/translate/test_carried_ids.py",)
OTHER_BROKERS = ("tests/unit/runtime/connections/test_other_brokers.py",)
SAME_IDS = ("tests/unit/runtime/test_same_ids.py",)
TENANTS = ("tests/unit/runtime/test_tenants.py",)
CARRIED = ("tests/unit/kube/pods/test_once_followed.py",)
STORE = (
    "tests/unit/kube/pods/test_store.py",
    "tests/unit/kube/pods/test_gaps.py",
    "tests/unit/kube/pods/test_barrier.py",
    "tests/unit/kube/pods/test_handover.py",
)
WIRE = ("tests/unit/kafka/test_wire.py",)
TRANSLATE = ("tests/unit/kube/translate/test_pods.py", "tests/unit/kube/translate/test_translated_ids.py")
NODES = ("tests/unit/kube/nodes/test_node_store.py",)
OBJECTS = ("tests/unit/kube/test_informer.py",)
KOPF = ("tests/unit/runtime/process/test_run.py::test_nothing_that_a_watch_sends_ends_kopfs_watcher",)
PROCESS = ("tests/unit/runtime/test_operator.py", "tests/unit/runtime/test_lease_terms.py")
PULLER = (
    "tests/unit/journal/test_recommendations.py",
    "tests/unit/journal/test_recommendations_http.py",
    "tests/unit/journal/test_recommendations_rounds.py",
)
GATEWAY = (
    "tests/unit/kafka/test_gateway.py",
    "tests/unit/kafka/test_gateway_bounds.py",
    "tests/unit/kafka/test_gateway_failures.py",
    "tests/unit/kafka/test_gateway_leaves.py",
    "tests/unit/kafka/test_gateway_sizes.py",
)
RUNS = ("tests/unit/core/test_run.py",)
RELEASES = ("tests/unit/core/test_releases.py",)
TOLD_RUNS = ("tests/unit/kube/translate/test_translate_runs.py",)
CRASHES = ("tests/unit/runtime/test_crash_release.py",)
LEAVES_FOR_A_WHILE = ("tests/unit/kafka/test_gateway_leaves.py",)
LEAVES_ALONE = ("tests/unit/kafka/test_gateway_streams.py",)
THREADS = ("tests/unit/core/test_streams.py",)
APPLICATIONS = ("tests/unit/runtime/test_streams.py",)
RECORDS = ("tests/unit/kube/pods/test_index.py",)
MEMBERS = ("tests/unit/core/members",)
VERIFICATION = ("tests/unit/core/test_plan_verification.py",)
SHARED_CREDENTIALS = ("tests/unit/core/test_shared_credentials.py",)
LOST_RUNS = ("tests/unit/core/test_lost_runs.py", "tests/unit/core/test_certificate.py")
