{{- /* SPDX-License-Identifier: MIT OR Apache-2.0 */}}
{{- /* All objects have the name of the release. */}}
{{- define "mpwatch.name" -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Labels by which the DaemonSet selects its pods: they must not change. */}}
{{- define "mpwatch.selector" -}}
app.kubernetes.io/name: mpwatch
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mpwatch.labels" -}}
{{ include "mpwatch.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
