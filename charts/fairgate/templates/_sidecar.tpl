{{/*
For other charts that have this one as a dependency with `mode: sidecar`:

  initContainers:
    - {{- include "fairgate.sidecar.container" .Subcharts.fairgate | nindent 6 }}
  volumes:
    {{- include "fairgate.sidecar.volumes" .Subcharts.fairgate | nindent 4 }}

What else the pod needs for it, such as imagePullSecrets, is theirs to say.

A native sidecar: an init container that is started before the homeserver, restarted by itself, and stopped after it.
*/}}
{{- define "fairgate.sidecar.container" -}}
{{- include "fairgate.container" . }}
restartPolicy: Always
{{- end -}}

{{- define "fairgate.sidecar.volumes" -}}
{{- include "fairgate.volumes" . -}}
{{- end -}}

{{/* A strategic-merge patch for the homeserver's Deployment or StatefulSet. */}}
{{- define "fairgate.sidecar.patch" -}}
spec:
  template:
    spec:
      {{- with .Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      initContainers:
        - {{- include "fairgate.sidecar.container" . | nindent 10 }}
      {{- with .Values.sidecar.homeserverContainer }}
      containers:
        - name: {{ . }}
          lifecycle:
            preStop:
              sleep:
                seconds: {{ int $.Values.preStopSeconds }}
      {{- end }}
      volumes:
        {{- include "fairgate.sidecar.volumes" . | nindent 8 }}
{{- end -}}
