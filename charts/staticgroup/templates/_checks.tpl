{{/* What a JSON schema cannot say, because it concerns two values at once. */}}
{{- define "staticgroup.checks" -}}
{{- $operator := .Values.operator -}}
{{- if and (gt (int .Values.replicaCount) 1) (not $operator.leaderElection) -}}
{{- fail "operator.leaderElection: false needs replicaCount: 1, or two replicas would act at the same time" -}}
{{- end -}}
{{- if not (and (gt (float64 $operator.leaseDurationSeconds) (float64 $operator.leaseRenewDeadlineSeconds)) (gt (float64 $operator.leaseRenewDeadlineSeconds) (float64 $operator.leaseRetrySeconds))) -}}
{{- fail "operator: leaseDurationSeconds > leaseRenewDeadlineSeconds > leaseRetrySeconds must hold" -}}
{{- end -}}
{{- with .Values.podDisruptionBudget -}}
{{- if and .minAvailable .maxUnavailable -}}
{{- fail "podDisruptionBudget: set minAvailable or maxUnavailable, not both" -}}
{{- end -}}
{{- $least := toString .minAvailable -}}
{{- $pods := hasSuffix "%" $least | ternary (div (add (mul (trimSuffix "%" $least) $.Values.replicaCount) 99) 100) (int .minAvailable) -}}
{{- if and .enabled (ge (int $pods) (int $.Values.replicaCount)) -}}
{{- fail (printf "podDisruptionBudget.minAvailable: %s of %v pods would let no drain take any" $least $.Values.replicaCount) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.workloads.deployments (not (include "staticgroup.servesSlots" .)) -}}
{{- fail "workloads.deployments needs Kubernetes 1.35 and ValidatingAdmissionPolicy v1; helm template learns of them by --kube-version and --api-versions admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{- end -}}
{{- if and .Values.workloads.argoRollouts (not .Values.workloads.deployments) -}}
{{- fail "workloads.argoRollouts needs workloads.deployments: true, which serves pods of ReplicaSets" -}}
{{- end -}}
{{- with .Values.injection.webhook -}}
{{- if eq (int .port) (int .healthPort) -}}
{{- fail "injection.webhook: port and healthPort must differ" -}}
{{- end -}}
{{- end -}}
{{- with .Values.recommendations -}}
{{- if and .volume (not (or (eq .source .mountPath) (hasPrefix (printf "%s/" .mountPath) .source))) -}}
{{- fail (printf "recommendations.source: with recommendations.volume it must be %s or a folder in it" .mountPath) -}}
{{- end -}}
{{- end -}}
{{- $alerts := .Files.Get "files/alerts.yaml" -}}
{{- range $name, $_ := .Values.prometheusRule.overrides -}}
{{- if not (contains (printf "alert: %s\n" $name) $alerts) -}}
{{- fail (printf "prometheusRule.overrides: there is no alert %s" $name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if hasPrefix "STATICGROUP_" .name -}}
{{- fail (printf "extraEnv: %s is a setting of the operator; use the value below `operator` that sets it" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
