{{- define "chronos.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "chronos.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "chronos.labels" -}}
{{ include "chronos.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "chronos.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "chronos.serviceAccount" -}}
{{ if .Values.serviceAccount.create }}{{ include "chronos.name" . }}{{ else }}default{{ end }}
{{- end }}

{{- define "chronos.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* What the listener of the chart speaks. */ -}}
{{- define "chronos.scheme" -}}
{{ if index .Values.config "admin-tls-cert" }}https{{ else }}http{{ end }}
{{- end }}

{{- /* Whether messages wait in a journal, whose local copies need a folder. */ -}}
{{- define "chronos.journal" -}}
{{- if hasPrefix "journal:" (toString .Values.config.store) }}true{{ end }}
{{- end }}

{{- /* The listeners that the configuration sets, beside the one of the chart: for each the name of its port, and its port. */ -}}
{{- define "chronos.listeners" -}}
{{- range $key, $name := dict "api-listen" "api" "horae-listen" "horae" "metaswitch-listen" "metaswitch" }}
{{- with index $.Values.config $key }}
{{- if ne (toString .) "off" }}
{{ $name }}: {{ regexFind "[0-9]+$" (toString .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The configuration of a node: what the values say, and the listener. */ -}}
{{- define "chronos.config" -}}
{{- $secrets := "/etc/chronos/secrets" -}}
{{- $_ := required "config.store must say where messages wait, such as postgres://chronos@postgres/chronos" .Values.config.store -}}
{{- $_ := required "config.brokers must say where Kafka is, such as [kafka:9092], or none" .Values.config.brokers -}}
{{- $own := dict
  "admin-listen" (printf "0.0.0.0:%v" .Values.admin.port)
  "admin-token-file" (printf "%s/admin-token" $secrets)
  "admin-allow" .Values.admin.allow
  "log-format" "json" -}}
{{- if include "chronos.journal" . }}{{ $_ := set $own "data-dir" "/var/lib/chronos" }}{{ end -}}
{{ toYaml (merge (deepCopy .Values.config) $own) }}
{{- end }}
