{{/* drover.sidecar is "true" when the cluster-autoscaler runs in drover's pods, else empty. */}}
{{- define "drover.sidecar" -}}
{{- if eq .Values.autoscaler.mode "sidecar" }}true{{ end }}
{{- end }}

{{/* drover.autoscaler.namespace is the namespace of the autoscaler, of its lease and of its status. */}}
{{- define "drover.autoscaler.namespace" -}}
{{- if include "drover.sidecar" . }}{{ .Release.Namespace }}{{ else }}{{ .Values.autoscaler.namespace }}{{ end }}
{{- end }}

{{/* drover.autoscaler.account is the ServiceAccount that the autoscaler runs under. */}}
{{- define "drover.autoscaler.account" -}}
{{- if include "drover.sidecar" . }}drover{{ else }}cluster-autoscaler{{ end }}
{{- end }}

{{/* drover.autoscaler.podName is the label app.kubernetes.io/name of the autoscaler's pods. A selector cannot be changed later, so the pods of this chart's own Deployment always have the same one. */}}
{{- define "drover.autoscaler.podName" -}}
{{- if include "drover.autoscaler.installed" . }}cluster-autoscaler{{ else }}{{ .Values.autoscaler.podName }}{{ end }}
{{- end }}

{{/* drover.autoscaler.installed is "true" when this chart installs the autoscaler, else empty. */}}
{{- define "drover.autoscaler.installed" -}}
{{- if ne .Values.autoscaler.mode "none" }}true{{ end }}
{{- end }}

{{/* drover.socket is the address of the unix socket between the containers of one pod. drover makes its folder, which others cannot write. */}}
{{- define "drover.socket" -}}
unix:///run/drover/own/grpc.sock
{{- end }}

{{/* drover.selfSigned is "true" when drover makes the certificates, else empty. */}}
{{- define "drover.selfSigned" -}}
{{- if and (eq .Values.tls.mode "self") (not (include "drover.sidecar" .)) }}true{{ end }}
{{- end }}

{{/* drover.certManager is "true" when cert-manager makes the certificates, else empty. */}}
{{- define "drover.certManager" -}}
{{- if and (eq .Values.tls.mode "certManager") (not (include "drover.sidecar" .)) }}true{{ end }}
{{- end }}

{{/* drover.autoscaler.args are the flags of the autoscaler, one per line: those of the file, then those of the values. */}}
{{- define "drover.autoscaler.args" -}}
{{- range .Files.Lines "files/cluster-autoscaler/flags" }}
{{- if hasPrefix "--" . }}
- {{ . }}
{{- end }}
{{- end }}
{{- range .Values.autoscaler.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* drover.autoscaler.container is the autoscaler's container. */}}
{{- define "drover.autoscaler.container" -}}
name: cluster-autoscaler
image: {{ .Values.autoscaler.image.repository }}:{{ .Values.autoscaler.image.tag }}
imagePullPolicy: {{ .Values.autoscaler.image.pullPolicy }}
command:
  - ./cluster-autoscaler
  - --cloud-provider=externalgrpc
  - --cloud-config=/etc/drover-config/cloud-config.yaml
  - --namespace={{ include "drover.autoscaler.namespace" . }}
  - --leader-elect=true
  - --v=2
args:
  {{- include "drover.autoscaler.args" . | nindent 2 }}
ports:
  - name: ca-metrics
    containerPort: 8085
livenessProbe:
  httpGet:
    path: /health-check
    port: ca-metrics
resources:
  {{- toYaml .Values.autoscaler.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - name: autoscaler-config
    mountPath: /etc/drover-config
    readOnly: true
  {{- if include "drover.sidecar" . }}
  - name: socket
    mountPath: /run/drover
  {{- else }}
  - name: tls
    mountPath: /etc/drover
    readOnly: true
  {{- end }}
{{- end }}

{{/* drover.args are drover's flags. */}}
{{- define "drover.args" -}}
- --namespace={{ .Release.Namespace }}
{{- if include "drover.sidecar" . }}
- --grpc-address={{ include "drover.socket" . }}
{{- else }}
- --grpc-address=:8086
{{- if eq .Values.tls.mode "self" }}
- --grpc-secrets={{ .Values.tls.serverSecretName }},{{ .Values.autoscaler.namespace }}/{{ .Values.tls.clientSecretName }}
{{- else }}
- --grpc-cert-dir=/etc/drover/grpc
{{- end }}
{{- with .Values.tls.allowedClients }}
- --grpc-allowed-clients={{ join "," . }}
{{- end }}
{{- end }}
- --health-address=:8081
- --metrics-address=:8080
{{- if .Values.cloud.secretName }}
- --clouds-yaml=/etc/drover/cloud/clouds.yaml
- --cloud={{ .Values.cloud.name }}
{{- with .Values.cloud.caKey }}
- --cloud-ca=/etc/drover/cloud/{{ . }}
{{- end }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
