{{- define "wick.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (default .Chart.Name .Values.nameOverride) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (default .Chart.Name .Values.nameOverride) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "wick.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{/* wick.selector (dict "root" $ "part" "server") */}}
{{- define "wick.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "wick.labels" -}}
{{ include "wick.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "wick.scheme" -}}
{{ ternary "https" "http" (ne .Values.server.tlsSecret "") }}
{{- end -}}

{{/* Where profiles are sent: the server, or the ingest servers. */}}
{{- define "wick.ingestHost" -}}
{{ include "wick.fullname" . }}{{ ternary "-ingest" "" (ne .Values.server.clickhouse.location "") }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "wick.apiHost" -}}
{{ include "wick.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{/* No capability, no write access to the image, no way to more rights. */}}
{{- define "wick.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "wick.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* wick.yaml of the servers: what the chart decides, with server.config merged over it. */}}
{{- define "wick.serverConfig" -}}
{{- $name := include "wick.fullname" . -}}
{{- $hosts := list -}}
{{- range $part := list "" "-ingest" -}}
{{- $service := printf "%s%s" $name $part -}}
{{- $hosts = concat $hosts (list $service (printf "%s.%s" $service $.Release.Namespace) (printf "%s.%s.svc" $service $.Release.Namespace) (printf "%s.%s.svc.cluster.local" $service $.Release.Namespace)) -}}
{{- end -}}
{{- if .Values.server.ingress.enabled -}}{{- $hosts = append $hosts .Values.server.ingress.host -}}{{- end -}}
{{- $hosts = concat $hosts .Values.server.hosts -}}
{{- $listen := dict "http" "0.0.0.0:4040" "otlp_grpc" "0.0.0.0:4317" "otlp_http" "0.0.0.0:4318" "hosts" $hosts -}}
{{- if .Values.server.tlsSecret -}}
{{- $_ := set $listen "tls" (dict "cert_file" "/etc/wick/tls/tls.crt" "key_file" "/etc/wick/tls/tls.key") -}}
{{- end -}}
{{- if not (and .Values.server.tlsSecret .Values.server.tokensSecret) -}}{{- $_ := set $listen "insecure" true -}}{{- end -}}
{{- $auth := dict "anonymous" .Values.server.anonymous -}}
{{- if .Values.server.tokensSecret -}}{{- $_ := set $auth "tokens" "/etc/wick/tokens/tokens" -}}{{- end -}}
{{- $config := dict "listen" $listen "auth" $auth "agent" (dict "enabled" false) -}}
{{- if .Values.server.clickhouse.location -}}{{- $_ := set $config "store" (dict "dir" .Values.server.clickhouse.location) -}}{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.server.config)) -}}
{{- end -}}

{{/* The container of a server. wick.server (dict "root" $ "args" list) */}}
{{- define "wick.server" -}}
- name: wick
  image: {{ include "wick.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args: {{ toJson .args }}
  securityContext: {{- include "wick.containerSecurity" .root | nindent 4 }}
  env:
    - {name: XDG_DATA_HOME, value: /var/lib}
    {{- with .root.Values.server.clickhouse.passwordSecret }}
    {{- if .name }}
    - {name: WICK_CLICKHOUSE_PASSWORD, valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}}
    {{- end }}
    {{- end }}
    {{- with .root.Values.server.env }}{{ toYaml . | nindent 4 }}{{- end }}
  ports:
    - {name: http, containerPort: 4040}
    - {name: otlp-grpc, containerPort: 4317}
    - {name: otlp-http, containerPort: 4318}
  startupProbe:
    httpGet: {path: /healthz, port: http, scheme: {{ include "wick.scheme" .root | upper }}}
    periodSeconds: 2
    failureThreshold: 150
  livenessProbe:
    httpGet: {path: /healthz, port: http, scheme: {{ include "wick.scheme" .root | upper }}}
    periodSeconds: 20
    timeoutSeconds: 5
    failureThreshold: 6
  readinessProbe:
    httpGet: {path: /readyz, port: http, scheme: {{ include "wick.scheme" .root | upper }}}
    periodSeconds: 5
    timeoutSeconds: 5
  resources: {{- toYaml .root.Values.server.resources | nindent 4 }}
  volumeMounts:
    - {name: config, mountPath: /etc/wick/wick.yaml, subPath: wick.yaml, readOnly: true}
    - {name: data, mountPath: /var/lib/wick}
    - {name: tmp, mountPath: /tmp}
    {{- if .root.Values.server.tlsSecret }}
    - {name: tls, mountPath: /etc/wick/tls, readOnly: true}
    {{- end }}
    {{- if .root.Values.server.tokensSecret }}
    - {name: tokens, mountPath: /etc/wick/tokens, readOnly: true}
    {{- end }}
{{- end -}}

{{- define "wick.serverVolumes" -}}
- name: config
  configMap: {name: {{ include "wick.fullname" . }}}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- if .Values.server.tlsSecret }}
- name: tls
  secret: {secretName: {{ .Values.server.tlsSecret }}}
{{- end }}
{{- if .Values.server.tokensSecret }}
- name: tokens
  secret: {secretName: {{ .Values.server.tokensSecret }}}
{{- end }}
{{- end -}}

{{/* What a pod of a server has besides containers and volumes. wick.serverPod (dict "root" $ "part" "server") */}}
{{- define "wick.serverPod" -}}
{{- $v := .root.Values.server -}}
serviceAccountName: {{ include "wick.fullname" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 30
securityContext: {{- include "wick.podSecurity" .root | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $v.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $v.topologySpread }}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ $key }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "wick.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}
