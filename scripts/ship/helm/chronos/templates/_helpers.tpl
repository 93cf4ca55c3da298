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

{{- /* The configuration of a node: what the values say, and the listener. */ -}}
{{- define "chronos.config" -}}
{{- $secrets := "/etc/chronos/secrets" -}}
{{- $own := dict
  "admin-listen" (printf "0.0.0.0:%v" .Values.admin.port)
  "admin-token-file" (printf "%s/admin-token" $secrets)
  "admin-allow" .Values.admin.allow
  "log-format" "json" -}}
{{ toYaml (merge (deepCopy .Values.config) $own) }}
{{- end }}
