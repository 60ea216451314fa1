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
app.kubernetes.io/component: {{ .Values.mode }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Name, namespace, labels and annotations of an object: {root, name, labels, annotations}. */}}
{{- define "fairgate.metadata" -}}
{{- $root := .root -}}
name: {{ default (include "fairgate.fullname" $root) .name }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "fairgate.labels" $root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge dict (default dict .annotations) $root.Values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
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

{{/* The port of the way out, or nothing. As a sidecar it needs none: the homeserver reaches it on the pod's loopback. */}}
{{- define "fairgate.egressPort" -}}
{{- $egress := default dict .Values.config.egress -}}
{{- with (default dict $egress.listen).address -}}
{{- if eq $.Values.mode "gateway" -}}
{{- if or (hasPrefix "unix:" .) (hasPrefix "127." .) (hasPrefix "[::1]" .) (hasPrefix "localhost:" .) -}}
{{- fail "config.egress.listen.address must be one the homeserver's pods reach, such as 0.0.0.0:8011" -}}
{{- end -}}
{{- if not $egress.clients -}}
{{- fail "config.egress.clients is required with config.egress.listen: the network of the homeserver's pods" -}}
{{- end -}}
{{- regexFind "[0-9]+$" . -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The name of a further object of the release: list of the root and the part. */}}
{{- define "fairgate.partName" -}}
{{- $part := index . 1 -}}
{{- printf "%s-%s" (include "fairgate.fullname" (index . 0) | trunc (int (sub 62 (len $part))) | trimSuffix "-") $part -}}
{{- end -}}

{{/* What every Service says alike: which pods, and of which family its addresses are. */}}
{{- define "fairgate.serviceAddresses" -}}
{{- with .Values.service.ipFamilyPolicy -}}
ipFamilyPolicy: {{ . }}
{{ end -}}
selector:
  {{- if eq .Values.mode "gateway" }}
  {{- include "fairgate.selectorLabels" . | nindent 2 }}
  {{- else }}
  {{- toYaml .Values.sidecar.podLabels | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Refuse what would be left out in silence, or be shown to everybody. */}}
{{- define "fairgate.demands" -}}
{{- if .Values.config.admin.token -}}
{{- fail "config.admin.token would be readable in the ConfigMap: put it into a Secret, and name that in admin.existingSecret" -}}
{{- end -}}
{{- if eq .Values.mode "sidecar" -}}
{{- $ours := list "podAnnotations" "extraInitContainers" "terminationGracePeriodSeconds" "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints" "priorityClassName" "schedulerName" "runtimeClassName" "hostAliases" -}}
{{- range $ours -}}
{{- if index $.Values . -}}
{{- fail (printf "%s is for gateway mode: a sidecar's pod is the homeserver's, set it there" .) -}}
{{- end -}}
{{- end -}}
{{- range list "autoscaling" "podDisruptionBudget" -}}
{{- if (index $.Values .).enabled -}}
{{- fail (printf "%s is for gateway mode: a sidecar comes and goes with the homeserver" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The names of the container's ports; a sidecar's must not meet those of the homeserver beside it. */}}
{{- define "fairgate.portName" -}}
{{- ternary "fairgate" "http" (eq .Values.mode "sidecar") -}}
{{- end -}}

{{- define "fairgate.metricsPortName" -}}
{{- ternary "fairgate-probes" "metrics" (eq .Values.mode "sidecar") -}}
{{- end -}}

{{/* How many processes stand in front of the one homeserver, at most. A sidecar is alone in front of its own. */}}
{{- define "fairgate.processes" -}}
{{- if eq .Values.mode "sidecar" -}}1
{{- else if .Values.autoscaling.enabled -}}{{ .Values.autoscaling.maxReplicas }}
{{- else -}}{{ max 1 (int .Values.replicas) }}
{{- end -}}
{{- end -}}

{{/*
config.yaml. Fairgate's processes share nothing, so a figure that limits what the homeserver gets is divided by
their number. files/per-process.yaml lists these figures, their defaults, and the least each may be.
*/}}
{{- define "fairgate.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if not $config.homeserver.url -}}
{{- if eq .Values.mode "gateway" -}}{{- fail "config.homeserver.url is required: http://service:port of the homeserver" -}}{{- end -}}
{{- $_ := set $config.homeserver "url" "http://127.0.0.1:8008" -}}
{{- end -}}
{{- $processes := int (include "fairgate.processes" .) -}}
{{- if gt $processes 1 -}}
{{- $known := .Files.Get "files/per-process.yaml" | fromYaml -}}
{{- range $path, $figure := $known.figures -}}
{{- $keys := splitList "." $path -}}
{{- $place := $config -}}
{{- range initial $keys -}}
{{- if not (kindIs "map" (get $place .)) -}}{{- $_ := set $place . dict -}}{{- end -}}
{{- $place = get $place . -}}
{{- end -}}
{{- $value := ternary (get $place (last $keys)) $figure.default (hasKey $place (last $keys)) -}}
{{- if eq (toString $value) "profile" -}}
{{- $profile := get $known.profiles (toString (default "auto" $config.homeserver.profile)) -}}
{{- if not $profile -}}
{{- fail (printf "more than one replica needs config.homeserver.profile (%s), or %s as a number: each gets its part of the figures" (keys $known.profiles | sortAlpha | join ", ") $path) -}}
{{- end -}}
{{- $value = get $profile $path -}}
{{- end -}}
{{- if or (kindIs "float64" $value) (kindIs "int64" $value) (kindIs "int" $value) -}}
{{- $part := int (floor (divf $value $processes)) -}}
{{- if and (lt $part (int $figure.least)) (hasSuffix ".workers" $path) -}}
{{- fail (printf "%d replicas are too many for %s, %v: each needs at least %v of it" $processes $path $value $figure.least) -}}
{{- end -}}
{{- $_ := set $place (last $keys) (max (int $figure.least) $part) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "fairgate.drainSeconds" -}}
{{- dig "connections" "drain_seconds" 25 .Values.config -}}
{{- end -}}

{{/* Long enough for preStop, the drain, and the second after it. */}}
{{- define "fairgate.terminationGracePeriodSeconds" -}}
{{- $needed := add (int .Values.preStopSeconds) (ceil (float64 (include "fairgate.drainSeconds" .))) 5 -}}
{{- $given := .Values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given -}}
{{- $needed -}}
{{- else if lt (int $given) (int $needed) -}}
{{- fail (printf "terminationGracePeriodSeconds must be at least %d: preStopSeconds + config.connections.drain_seconds + 5" (int $needed)) -}}
{{- else -}}
{{- int $given -}}
{{- end -}}
{{- end -}}

{{/* The container, the same in a Deployment of its own and as a sidecar. */}}
{{- define "fairgate.container" -}}
name: fairgate
image: {{ include "fairgate.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [run, --config, /etc/fairgate/config.yaml]
securityContext:
  {{- toYaml .Values.containersSecurityContext | nindent 2 }}
{{- $secret := .Values.admin.existingSecret }}
{{- if or $secret.name .Values.extraEnv }}
env:
  {{- if $secret.name }}
  - name: FAIRGATE_ADMIN__TOKEN
    valueFrom:
      secretKeyRef:
        name: {{ $secret.name }}
        key: {{ $secret.key }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
ports:
  - name: {{ include "fairgate.portName" . }}
    containerPort: {{ include "fairgate.port" . }}
    protocol: TCP
  - name: {{ include "fairgate.metricsPortName" . }}
    containerPort: {{ include "fairgate.metricsPort" . }}
    protocol: TCP
  {{- with include "fairgate.egressPort" . }}
  - name: egress
    containerPort: {{ . }}
    protocol: TCP
  {{- end }}
{{- range $probe, $path := dict "startupProbe" "/healthz" "livenessProbe" "/healthz" "readinessProbe" .Values.readinessProbe.path }}
{{ $probe }}:
  httpGet:
    path: {{ $path }}
    port: {{ include "fairgate.metricsPortName" $ }}
  {{- toYaml (omit (get $.Values $probe) "path") | nindent 2 }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - name: fairgate-config
    mountPath: /etc/fairgate
    readOnly: true
  - name: fairgate-tmp
    mountPath: /tmp
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Room for both spools, where they are in /tmp, and 256 MiB. */}}
{{- define "fairgate.tmpBytes" -}}
{{- $requests := dig "bodies" "spool_bytes" 1073741824 .Values.config -}}
{{- $responses := dig "responses" "spool_bytes" 1073741824 .Values.config -}}
{{- add (int64 $requests) (int64 $responses) 268435456 -}}
{{- end -}}

{{- define "fairgate.volumes" -}}
- name: fairgate-config
  configMap:
    name: {{ include "fairgate.fullname" . }}
- name: fairgate-tmp
  emptyDir:
    sizeLimit: {{ default (include "fairgate.tmpBytes" .) .Values.tmp.sizeLimit | quote }}
    {{- with .Values.tmp.medium }}
    medium: {{ . }}
    {{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
