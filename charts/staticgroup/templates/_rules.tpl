{{/* What is needed in every served namespace. Secrets are never listed, and pods never written but for the notes of Deployments' pods,
to which the fence keeps that right. */}}
{{- define "staticgroup.tenantRules" -}}
- apiGroups: [staticgroup.io]
  resources: [staticgroups, kafkaconnections]
  verbs: [get, list, watch]
- apiGroups: [staticgroup.io]
  resources: [staticgroups/status, kafkaconnections/status]
  verbs: [get, patch]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch]
{{- if .Values.workloads.deployments }}
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get]
{{- end }}
{{- if .Values.workloads.argoRollouts }}
- apiGroups: [argoproj.io]
  resources: [rollouts]
  verbs: [get]
{{- end }}
{{- if .Values.workloads.strimzi }}
- apiGroups: [core.strimzi.io]
  resources: [strimzipodsets]
  verbs: [get]
{{- end }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
{{- if include "staticgroup.hasSlots" . }}
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{- end }}
- apiGroups: [""]
  resources: [secrets]
  {{- with .Values.rbac.secretNames }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: [get]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* What exists once in a cluster. */}}
{{- define "staticgroup.clusterRules" -}}
{{- if .Values.rbac.nodes -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
{{ end -}}
# The uid of the first names the cluster: issued ids are scoped by it. Whether one is gone is asked of those that are served.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system{{ range .Values.watchNamespaces }}, {{ . | quote }}{{ end }}]
  verbs: [get]
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingadmissionpolicies, mutatingwebhookconfigurations]
  resourceNames: [{{ include "staticgroup.policyName" . }}]
  verbs: [get]
{{- if .Values.workloads.deployments }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingadmissionpolicies, validatingadmissionpolicies]
  resourceNames: [{{ include "staticgroup.slotsName" . }}]
  verbs: [get]
{{- end }}
{{- end -}}

{{/* What an operator of all namespaces needs beside: connections of the whole cluster, and the labels by which they are allowed. */}}
{{- define "staticgroup.allNamespacesRules" -}}
- apiGroups: [staticgroup.io]
  resources: [clusterkafkaconnections]
  verbs: [get, list, watch]
- apiGroups: [staticgroup.io]
  resources: [clusterkafkaconnections/status]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- end -}}

{{- define "staticgroup.subjects" -}}
- kind: ServiceAccount
  name: {{ include "staticgroup.serviceAccountName" . }}
  namespace: {{ include "staticgroup.namespace" . }}
{{- end -}}
