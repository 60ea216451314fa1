{{/* What leads traffic or scrapes to Fairgate needs the Service. */}}
{{- define "fairgate.needsService" -}}
{{- if and (eq .root.Values.mode "sidecar") (not .root.Values.sidecar.podLabels) -}}
{{- fail (printf "%s needs a Service: set sidecar.podLabels to the labels of the homeserver's pods" .what) -}}
{{- end -}}
{{- end -}}
