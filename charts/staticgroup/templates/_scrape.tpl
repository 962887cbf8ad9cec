{{/* How an endpoint is scraped; the value is metrics.serviceMonitor or metrics.podMonitor. */}}
{{- define "staticgroup.scrape" -}}
interval: {{ .interval }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- /* The label `namespace` is that of the StaticGroup; without this Prometheus would call it exported_namespace. */}}
{{- if .honorLabels }}
honorLabels: true
{{- end }}
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
