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

{{/* Where everything namespaced of the release is. Helm keeps its own record where it was told to install. */}}
{{- define "staticgroup.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* The Deployment, and everything of it that is namespaced. */}}
{{- define "staticgroup.operator" -}}
{{- include "staticgroup.fullname" . }}-operator
{{- end -}}

{{/* Prefix of cluster-scoped objects. Releases for some namespaces may share a cluster, so theirs carries the namespace
that they run in; a second release for all namespaces is meant to collide. */}}
{{- define "staticgroup.clusterName" -}}
{{- if .Values.watchNamespaces -}}
{{- printf "%s-%s" (include "staticgroup.namespace" .) (include "staticgroup.fullname" .) -}}
{{- else -}}
{{- include "staticgroup.fullname" . -}}
{{- end -}}
{{- end -}}

{{- define "staticgroup.policyName" -}}
{{- if .Values.watchNamespaces -}}
{{- printf "staticgroup-inject-%s-%s" (include "staticgroup.namespace" .) (include "staticgroup.fullname" .) -}}
{{- else -}}
staticgroup-inject
{{- end -}}
{{- end -}}

{{/* Of the policy and of the fence for pods of Deployments. */}}
{{- define "staticgroup.slotsName" -}}
{{- include "staticgroup.policyName" . | replace "staticgroup-inject" "staticgroup-slots" -}}
{{- end -}}

{{/* Ids of Deployments' pods come from a file (fileKeyRef). The fence is what keeps the right to patch pods to their notes. */}}
{{- define "staticgroup.servesSlots" -}}
{{- if and (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy") (semverCompare ">=1.35.0-0" .Capabilities.KubeVersion.Version) -}}true{{- end -}}
{{- end -}}

{{- define "staticgroup.hasSlots" -}}
{{- if and .Values.workloads.deployments (not .Values.operator.forceObserve) (include "staticgroup.servesSlots" .) -}}true{{- end -}}
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

{{- define "staticgroup.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "staticgroup.operator" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: required when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* An image of the values as pods name it. Its registry is what stands before the first slash, if that has a dot or a port or is
localhost: a parent's wins over it. Takes `root` and `image`. */}}
{{- define "staticgroup.imageOf" -}}
{{- $repository := .image.repository -}}
{{- with (.root.Values.global | default dict).imageRegistry -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") -}}
{{- end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .root.Chart.AppVersion .image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "staticgroup.image" -}}
{{- include "staticgroup.imageOf" (dict "root" . "image" .Values.image) -}}
{{- end -}}

{{- define "staticgroup.slotImage" -}}
{{- include "staticgroup.imageOf" (dict "root" . "image" .Values.slots.image) -}}
{{- end -}}

{{- define "staticgroup.selector" -}}
app.kubernetes.io/name: {{ include "staticgroup.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* Labels and annotations of an object, as fields of its metadata: those of every object, and over the common ones its own.
Takes `root`, and perhaps `component`, `labels` and `annotations`. */}}
{{- define "staticgroup.metadata" -}}
labels:
  app.kubernetes.io/name: {{ include "staticgroup.name" .root }}
  app.kubernetes.io/instance: {{ .root.Release.Name }}
  app.kubernetes.io/component: {{ .component | default "operator" }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
  {{- with merge (dict) (.labels | default dict) (.root.Values.commonLabels | default dict) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
