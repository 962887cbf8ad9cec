{{/* Settings: one variable for each field of staticgroup.runtime.settings.Settings. */}}
{{- define "staticgroup.env" -}}
{{- $operator := .Values.operator -}}
{{- $journal := .Values.journal -}}
- name: STATICGROUP_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: STATICGROUP_IDENTITY
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: STATICGROUP_WATCH_NAMESPACES
  value: {{ join "," .Values.watchNamespaces | quote }}
- name: STATICGROUP_FORCE_OBSERVE
  value: {{ $operator.forceObserve | quote }}
- name: STATICGROUP_DOCS_URL
  value: {{ .Values.docsUrl | quote }}
- name: STATICGROUP_LEADER_ELECTION
  value: {{ $operator.leaderElection | quote }}
- name: STATICGROUP_LEASE_NAME
  value: {{ include "staticgroup.operator" . | quote }}
- name: STATICGROUP_POLICY_NAME
  value: {{ include "staticgroup.policyName" . | quote }}
- name: STATICGROUP_WEBHOOK_NAME
  value: {{ include "staticgroup.policyName" . | quote }}
- name: STATICGROUP_DEPLOYMENTS
  value: {{ .Values.workloads.deployments | quote }}
- name: STATICGROUP_SLOTS_NAME
  value: {{ include "staticgroup.slotsName" . | quote }}
- name: STATICGROUP_LEASE_DURATION_S
  value: {{ $operator.leaseDurationSeconds | quote }}
- name: STATICGROUP_LEASE_RENEW_DEADLINE_S
  value: {{ $operator.leaseRenewDeadlineSeconds | quote }}
- name: STATICGROUP_LEASE_RETRY_S
  value: {{ $operator.leaseRetrySeconds | quote }}
- name: STATICGROUP_CONCURRENCY
  value: {{ $operator.concurrency | quote }}
- name: STATICGROUP_ROUND_DEADLINE_S
  value: {{ $operator.roundDeadlineSeconds | quote }}
- name: STATICGROUP_GROUP_POLL_S
  value: {{ $operator.groupPollSeconds | quote }}
- name: STATICGROUP_RELIST_S
  value: {{ $operator.relistSeconds | quote }}
- name: STATICGROUP_BARRIER_PATIENCE_S
  value: {{ $operator.barrierPatienceSeconds | quote }}
- name: STATICGROUP_SECRET_MAX_AGE_S
  value: {{ $operator.secretMaxAgeSeconds | quote }}
- name: STATICGROUP_SECRET_LABEL
  value: {{ $operator.secretLabel | quote }}
- name: STATICGROUP_ALLOW_LOOPBACK
  value: {{ $operator.allowLoopback | quote }}
- name: STATICGROUP_TOKENS_PATH
  value: {{ $operator.tokens | empty | ternary "" "/var/run/secrets/staticgroup/tokens" | quote }}
- name: STATICGROUP_AWS_MSK_IAM
  {{- $loans := list }}
  {{- range $operator.awsMskIam }}
  {{- $loans = append $loans (empty .roleArn | ternary .namespace (printf "%s=%s" .namespace (.roleArn | default ""))) }}
  {{- end }}
  value: {{ join "," $loans | quote }}
- name: STATICGROUP_HEALTH_PORT
  value: "8080"
- name: STATICGROUP_LOG_LEVEL
  value: {{ $operator.logLevel | quote }}
- name: STATICGROUP_LOG_FORMAT
  value: {{ $operator.logFormat | quote }}
- name: STATICGROUP_JOURNAL_KAFKA_CONNECTION
  value: {{ $journal.kafka.connection | quote }}
- name: STATICGROUP_JOURNAL_KAFKA_TOPIC
  value: {{ $journal.kafka.topic | quote }}
- name: STATICGROUP_JOURNAL_FILES_PATH
  value: {{ $journal.files.enabled | ternary "/var/lib/staticgroup/journal" "" | quote }}
- name: STATICGROUP_JOURNAL_FILES_MAX_MIB
  value: {{ $journal.files.maxMebibytes | quote }}
- name: STATICGROUP_JOURNAL_FILES_COUNT
  value: {{ $journal.files.count | quote }}
- name: STATICGROUP_JOURNAL_QUEUE
  value: {{ $journal.queue | int | quote }}
- name: STATICGROUP_RECOMMENDATIONS_SOURCE
  value: {{ .Values.recommendations.source | quote }}
- name: STATICGROUP_RECOMMENDATIONS_POLL_S
  value: {{ .Values.recommendations.pollSeconds | quote }}
- name: STATICGROUP_NODE_LIFECYCLE
  value: {{ .Values.evidence.nodeLifecycle | quote }}
- name: STATICGROUP_SETTLE_S
  value: {{ .Values.evidence.settleSeconds | quote }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What all pods of the release share: whose credentials pull the image, and where and on what they run. In `global` other charts
take plain names of Secrets as well, so a parent may have written those. */}}
{{- define "staticgroup.placement" -}}
{{- $secrets := list -}}
{{- range concat ((.Values.global | default dict).imagePullSecrets | default list) (.Values.imagePullSecrets | default list) -}}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with uniq $secrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* How a pod finds names; the operator and the doctor must find the same. */}}
{{- define "staticgroup.names" -}}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The context, which is a pod's or the container's, as a field; nothing when it is empty. */}}
{{- define "staticgroup.securityContext" -}}
{{- with . -}}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* The operator's own: a volume of the journal that is not an emptyDir belongs to root otherwise. */}}
{{- define "staticgroup.operatorSecurityContext" -}}
{{- $context := .Values.podSecurityContext | default dict -}}
{{- if and .Values.journal.files.enabled (hasKey $context "runAsGroup") (not (hasKey $context "fsGroup")) -}}
{{- $context = merge (dict "fsGroup" $context.runAsGroup "fsGroupChangePolicy" "OnRootMismatch") $context -}}
{{- end -}}
{{- include "staticgroup.securityContext" $context -}}
{{- end -}}

{{/* The volume of the tokens that namespaces may use: the path of each contains its namespace. */}}
{{- define "staticgroup.tokens" -}}
{{- with .Values.operator.tokens -}}
- name: tokens
  projected:
    sources:
      {{- range . }}
      - serviceAccountToken:
          path: {{ printf "%s/%s" .namespace .name | quote }}
          audience: {{ .audience | quote }}
          expirationSeconds: {{ .expirationSeconds | default 3600 | int }}
      {{- end }}
{{- end -}}
{{- end -}}
