{{- define "staticgroup.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "staticgroup.fullname" -}}
{{- $name := include "staticgroup.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The Deployment, and everything of it that is namespaced. */}}
{{- define "staticgroup.operator" -}}
{{- include "staticgroup.fullname" . }}-operator
{{- end -}}

{{/* Prefix of cluster-scoped objects. Releases for some namespaces may share a cluster, so theirs carries the namespace
of the release; a second release for all namespaces is meant to collide. */}}
{{- define "staticgroup.clusterName" -}}
{{- if .Values.watchNamespaces -}}
{{- printf "%s-%s" .Release.Namespace (include "staticgroup.fullname" .) -}}
{{- else -}}
{{- include "staticgroup.fullname" . -}}
{{- end -}}
{{- end -}}

{{- define "staticgroup.policyName" -}}
{{- if .Values.watchNamespaces -}}
{{- printf "staticgroup-inject-%s-%s" .Release.Namespace (include "staticgroup.fullname" .) -}}
{{- else -}}
staticgroup-inject
{{- end -}}
{{- end -}}

{{/* The version is asked for as well: `helm template` without a cluster claims every kind that Helm itself knows. */}}
{{- define "staticgroup.servesPolicy" -}}
{{- if and (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") (semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version) -}}true{{- end -}}
{{- end -}}

{{- define "staticgroup.hasPolicy" -}}
{{- if and .Values.injection.policy.enabled (not .Values.operator.forceObserve) (include "staticgroup.servesPolicy" .) -}}true{{- end -}}
{{- end -}}

{{/* Who switched the policy off wants nothing injected, unless the webhook is asked for by name. */}}
{{- define "staticgroup.hasWebhook" -}}
{{- $wish := toString .Values.injection.webhook.enabled -}}
{{- $isInstead := and (eq $wish "Auto") .Values.injection.policy.enabled (not (include "staticgroup.servesPolicy" .)) -}}
{{- if and (not .Values.operator.forceObserve) (or (eq $wish "true") $isInstead) -}}true{{- end -}}
{{- end -}}

{{- define "staticgroup.webhook" -}}
{{- include "staticgroup.fullname" . }}-webhook
{{- end -}}

{{- define "staticgroup.webhookSelector" -}}
app.kubernetes.io/name: {{ include "staticgroup.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: webhook
{{- end -}}

{{- define "staticgroup.webhookLabels" -}}
{{ include "staticgroup.webhookSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "staticgroup.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "staticgroup.operator" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: required when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "staticgroup.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "staticgroup.selector" -}}
app.kubernetes.io/name: {{ include "staticgroup.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "staticgroup.labels" -}}
{{ include "staticgroup.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}
