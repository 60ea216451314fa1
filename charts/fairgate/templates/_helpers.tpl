{{- define "fairgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "fairgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "fairgate.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "fairgate.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "fairgate.selectorLabels" -}}
app.kubernetes.io/name: {{ include "fairgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fairgate.labels" -}}
{{ include "fairgate.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "fairgate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "fairgate.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "fairgate.image" -}}
{{- $name := required "image.repository is required: no image of Fairgate is published" .Values.image.repository -}}
{{- with .Values.image.registry }}{{- $name = printf "%s/%s" . $name -}}{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $name .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The port of the first TCP address clients can connect to. */}}
{{- define "fairgate.port" -}}
{{- $port := "" -}}
{{- range .Values.config.listen -}}
{{- if and (not $port) (not (hasPrefix "unix:" .address)) -}}
{{- $port = regexFind "[0-9]+$" .address -}}
{{- end -}}
{{- end -}}
{{- required "config.listen needs a TCP address (host:port) for the Service" $port -}}
{{- end -}}

{{- define "fairgate.metricsPort" -}}
{{- $listen := .Values.config.metrics.listen -}}
{{- if hasPrefix "unix:" $listen -}}{{- fail "config.metrics.listen must be host:port, for the probes" -}}{{- end -}}
{{- required "config.metrics.listen needs a port, for the probes" (regexFind "[0-9]+$" $listen) -}}
{{- end -}}

{{- define "fairgate.config" -}}
{{- $_ := required "config.homeserver.url is required: http://service:port of the homeserver" .Values.config.homeserver.url -}}
{{- toYaml .Values.config -}}
{{- end -}}
