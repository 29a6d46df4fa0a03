package install

// variant is a named set of values of the chart drover that an operator may choose.
type variant struct {
	name   string
	values []string
}

var variants = []variant{
	{"the default values", nil},
	{"certificates in Secrets that the operator creates", []string{"--set=tls.mode=secret"}},
	{"certificates from a ClusterIssuer of cert-manager", []string{"--set=tls.mode=certManager", "--set=tls.certManager.issuerRef.name=ca", "--set=tls.certManager.issuerRef.kind=ClusterIssuer"}},
	{"certificates from cert-manager and a CA that the chart creates", []string{"--set=tls.mode=certManager", "--set=autoscaler.mode=separate", "--set=autoscaler.namespace=drover"}},
	{"an autoscaler in a separate Deployment", []string{"--set=autoscaler.mode=separate", "--set=autoscaler.extraArgs={--scale-down-unneeded-time=20m}"}},
	{"an autoscaler in drover's pod", []string{"--set=autoscaler.mode=sidecar"}},
	{"an autoscaler in drover's pod and certificates from cert-manager", []string{"--set=autoscaler.mode=sidecar", "--set=tls.mode=certManager"}},
	{"no configured cloud", []string{"--set=cloud.secretName="}},
	{"an autoscaler in drover's pod and no configured cloud", []string{"--set=autoscaler.mode=sidecar", "--set=cloud.secretName="}},
	{"a CA certificate for the cloud", []string{"--set=cloud.caKey=ca.crt", "--set=cloud.name=other"}},
	{"Machines in two namespaces", []string{"--set=machineNamespaces={kube-system,machines}"}},
	{"an empty list of namespaces for Machines", []string{"--set-json=machineNamespaces=[]"}},
	{"machine-controller beside drover", []string{"--set=machineController.installed=true"}},
	{"user data of operating-system-manager", []string{"--set=operatingSystemManager.installed=true"}},
	{"user data of operating-system-manager, and Machines in its namespace", []string{"--set=operatingSystemManager.installed=true", "--set=machineNamespaces={kube-system,cloud-init-settings}"}},
	{"a ServiceMonitor", []string{"--set=serviceMonitor.enabled=true", "--set=serviceMonitor.labels.release=prometheus"}},
	{"no PodDisruptionBudget and no NetworkPolicy", []string{"--set=podDisruptionBudget.enabled=false", "--set=networkPolicy.enabled=false"}},
	{"a NetworkPolicy that allows no namespace to read the metrics", []string{"--set-json=networkPolicy.metricsNamespaces=[]"}},
	{"a NetworkPolicy that lets kubelets of a network probe", []string{"--set-json=networkPolicy.probeCIDRs=[\"10.0.0.0/16\"]"}},
	{"non-default values for all settings of the pods", []string{
		"--set=replicas=3", "--set=image.pullPolicy=Always", "--set=imagePullSecrets[0].name=registry", "--set=priorityClassName=",
		"--set=podLabels.team=a", "--set=podAnnotations.note=b", "--set=nodeSelector.disk=ssd", "--set-json=tolerations=[]", "--set-json=affinity={}",
		"--set=env[0].name=HTTPS_PROXY", "--set=env[0].value=http://proxy:3128", "--set=envFrom[0].secretRef.name=variables",
		"--set=topologySpreadConstraints[0].maxSkew=1", "--set=topologySpreadConstraints[0].topologyKey=zone", "--set=topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
		"--set=extraVolumes[0].name=ca", "--set=extraVolumes[0].configMap.name=ca", "--set=extraVolumeMounts[0].name=ca", "--set=extraVolumeMounts[0].mountPath=/etc/ca",
		"--set=annotations.note=c", "--set=strategy.rollingUpdate.maxSurge=0", "--set-json=podSecurityContext={\"runAsUser\":null}",
		"--set=securityContext.privileged=false", "--set=podSpec.dnsPolicy=Default", "--set=podSpec.terminationGracePeriodSeconds=60",
		`--set-json=extraContainers=[{"name":"proxy","image":"example.invalid/proxy","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]`,
		"--set=image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
		"--set=extraArgs={--health-timeout=20m,--v=1}", "--set=autoscaler.mode=separate", "--set=autoscaler.replicas=2",
	}},
}
