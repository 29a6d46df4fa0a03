package v1alpha1

// Prefix begins every label, annotation, condition type and finalizer that drover defines.
const Prefix = "drover-project.github.io/"

// Finalizers. The names are machine-controller's, so that either program can finish a deletion that the other one began.
const (
	// FinalizerServer, on a Machine: its server and what belongs to it may exist in the cloud.
	FinalizerServer = "machine-delete-finalizer"
	// FinalizerNode, on a Machine: its Node may exist.
	FinalizerNode = "machine-node-delete-finalizer"
	// FinalizerFloatingIP, on a Machine: a floating IP that was created for it may exist. The annotation of the same name holds the ID of
	// the floating IP on Machines that machine-controller created.
	FinalizerFloatingIP = "kubermatic.io/release-openstack-floating-ip"
	// FinalizerInUse, on a MachineClass and the Secrets that it names: a deployment, a set or a Machine uses the class.
	FinalizerInUse = Prefix + "in-use"
)

// Annotations that users set.
const (
	// AnnotationDeleteMachine, on a Machine, any non-empty value: the Machine is deleted first when its set shrinks. It does not lower the
	// size.
	AnnotationDeleteMachine = "cluster.k8s.io/delete-machine"
	// AnnotationSkipEviction, on a Node, any value: its pods are not evicted when its Machine is deleted.
	AnnotationSkipEviction = "kubermatic.io/skip-eviction"
	// AnnotationInitializers, on a Machine, non-empty: no server is created yet.
	AnnotationInitializers = "machine-controller.kubermatic.io/initializers"
	// LabelController, on a Machine, is the name of the program that manages it. Empty: drover, unless drover has a name too (--name).
	LabelController = "machine.k8s.io/controller"
	// AnnotationBypassImmutable, on a Machine, "true": the admission policy allows changes of its spec.
	AnnotationBypassImmutable = "kubermatic.io/bypass-no-spec-mutation-requirement"
	// AnnotationPriority, on a Machine, a whole number, default 3: when its set shrinks, the Machine with the lowest number is deleted
	// first. The key is SysEleven's and Gardener's.
	AnnotationPriority = "machinepriority.machine.sapcloud.io"
	// AnnotationPaused and AnnotationPausedCAPI, on any of the kinds, any value (also "false"): all controllers leave the object alone. See
	// [Paused].
	AnnotationPaused     = "cluster.k8s.io/paused"
	AnnotationPausedCAPI = "cluster.x-k8s.io/paused"
	// AnnotationAllowSkew, on a Machine's template, "true": a kubelet outside the version skew is accepted.
	AnnotationAllowSkew = Prefix + "allow-version-skew"
	// AnnotationRollbackTo, on a MachineDeployment, is a revision (0: the previous one) whose template drover restores. drover removes the
	// annotation in the same write.
	AnnotationRollbackTo = Prefix + "rollback-to"
	// AnnotationUnfreeze, on a MachineDeployment or a MachineSet, any value: drover ends a freeze of its group once, and removes the
	// annotation in the same write. AnnotationUnfreezeMCM is machine-controller-manager's name for it.
	AnnotationUnfreeze    = Prefix + "unfreeze"
	AnnotationUnfreezeMCM = "safety.machine.sapcloud.io/unfreeze"
	// AnnotationForceDelete, on a Machine, "true": its finalizers are removed even when the cloud cannot be reached.
	AnnotationForceDelete = Prefix + "force-delete"
	// AnnotationAdopt, on a Machine, the ID of a server: an operator allows drover to take over that server although its owner tag names
	// another Machine, as after a restore of the cluster. It has an effect only while the admission policies protect it, when no Machine
	// has the UID in the server's owner tag, when the server has the Machine's name, and when it has no owner tag of another cluster. See
	// [GuardedAnnotations].
	AnnotationAdopt = Prefix + "adopt"
	// AnnotationCollect, on the ConfigMap of the cluster id, "yes": an operator confirms that many servers are gone, and that resources
	// without an owner may be collected. While it is set, the mass-deletion guards hold nothing.
	AnnotationCollect = Prefix + "collect"
	// AnnotationAllowDeletion, on a CustomResourceDefinition of drover, "true": the definition may be deleted, and with it the servers of
	// its Machines. Without the annotation, the policy of deploy/crds refuses the deletion, and where that policy is missing, drover drains
	// and deletes nothing.
	AnnotationAllowDeletion = Prefix + "allow-deletion"
	// AnnotationDrainTimeout, AnnotationVolumeDetachTimeout and AnnotationJoinTimeout, on a MachineDeployment or a Machine (which takes
	// precedence), are durations such as 30m that replace the values of the flags, also for a drain that is running.
	AnnotationDrainTimeout        = Prefix + "drain-timeout"
	AnnotationVolumeDetachTimeout = Prefix + "volume-detach-timeout"
	AnnotationJoinTimeout         = Prefix + "join-timeout"
	// AnnotationHealthTimeout, on a MachineDeployment, a set without a deployment, or a Machine (which takes precedence), is how long its
	// Node may be unhealthy before the Machine is replaced, as a duration such as 30m. 0 or never: it is not replaced.
	AnnotationHealthTimeout = Prefix + "health-timeout"
	// AnnotationHealthMaxReplacing, on a MachineDeployment or a set without a deployment, is how many of its Machines are replaced at the
	// same time because they are unhealthy, as a number or a percentage of its size (rounded up, at least one).
	AnnotationHealthMaxReplacing = Prefix + "health-max-replacing"
	// AnnotationSkipHealth, on a Machine, a set without a deployment, or a MachineDeployment, "true": unhealthy Machines are not replaced,
	// and a server that was stopped by another client is not started. See [SkipsHealth].
	AnnotationSkipHealth = Prefix + "skip-health"
	// AnnotationSkipHealthCAPI, on the same objects, any value, has the same effect. The key is Cluster API's.
	AnnotationSkipHealthCAPI = "cluster.x-k8s.io/skip-remediation"
	// AnnotationReplace, on a Machine, "true": the Machine is replaced before all others, as if it had been unhealthy for long.
	AnnotationReplace = Prefix + "replace"
	// AnnotationReplaceCAPI, on a Machine, any value, has the same effect. The key is Cluster API's.
	AnnotationReplaceCAPI = "cluster.x-k8s.io/remediate-machine"
)

// GuardedAnnotations lists annotations of a Machine, or of a template, that only drover may set, and users that may update machines/status
// in that namespace. The policies drover-guard-machines and drover-guard-groups enforce this. drover must not rely on one of them while
// those policies are not in force (package machines/guard).
var GuardedAnnotations = []string{FinalizerFloatingIP, AnnotationAdopt, AnnotationReleasedBy}

// Annotations that limit the size of a node group: whole numbers. The keys are tried in this order. The maximum decides whether the
// deployment is a node group at all.
var (
	AnnotationsMinSize = []string{
		"cluster.k8s.io/cluster-api-autoscaler-node-group-min-size",
		"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size",
		"cluster-autoscaler/min-size",
	}
	AnnotationsMaxSize = []string{
		"cluster.k8s.io/cluster-api-autoscaler-node-group-max-size",
		"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size",
		"cluster-autoscaler/max-size",
	}
)

// Annotations of a node group for the autoscaler.
const (
	// AnnotationCapacity is the prefix of the annotations that describe a group's nodes, in place of the values of the flavor: cpu, memory,
	// ephemeral-disk, maxPods, gpu-type, gpu-count, labels, taints. The names are those of the autoscaler's Cluster API provider.
	AnnotationCapacity = "capacity.cluster-autoscaler.kubernetes.io/"
	// AnnotationOptions and AnnotationOptionsCAPI are the prefixes of the annotations that override flags of the autoscaler for one group:
	// scaledownutilizationthreshold, scaledowngpuutilizationthreshold, scaledownunneededtime, scaledownunreadytime, maxnodeprovisiontime,
	// ignoredaemonsetsutilization, zeroormaxnodescaling.
	AnnotationOptions     = "cluster.k8s.io/autoscaling-options-"
	AnnotationOptionsCAPI = "cluster.x-k8s.io/autoscaling-options-"
)

// Labels and annotations that drover writes.
const (
	// AnnotationNodeGroup, on the template node that the autoscaler receives, is the ID of the node group. It is an annotation, because a
	// label would make similar groups look different to the autoscaler (CA-C102).
	AnnotationNodeGroup = Prefix + "node-group"
	// LabelFreeze, on a MachineDeployment and its MachineSets, [Frozen]: the sets create no Machines (see [ConditionFrozen]). The key and
	// the value are machine-controller-manager's.
	LabelFreeze = "freeze"
	// Frozen is the value of LabelFreeze. Other values have no effect.
	Frozen = "True"
	// LabelTemplateHash, on sets and Machines, distinguishes the sets of a deployment.
	LabelTemplateHash = "machine-template-hash"
	// LabelOwnedBy, on a Node, is the UID of its Machine.
	LabelOwnedBy = "machine-controller/owned-by"
	// LabelOperatingSystem, on a Node, is the operatingSystem of its Machine's provider spec. machine-controller sets it, and KubeOne's
	// addons select Nodes by it.
	LabelOperatingSystem = "v1.machine-controller.kubermatic.io/operating-system"
	// LabelPhysicalHost, on a Node, identifies the physical host of its server within the project.
	LabelPhysicalHost = "machine-controller/physical-host-id"
	// AnnotationNodeMachine, on a Node, is <namespace>/<name> of its Machine.
	AnnotationNodeMachine = "cluster.k8s.io/machine"
	// AnnotationUnmanaged, on a Node, "true": no Machine has ever had the Node. drover sets it when such a Node has existed for a while,
	// and removes it when a Machine has the Node. Nodes of the control plane never have it.
	AnnotationUnmanaged = Prefix + "unmanaged"
	// AnnotationNodeSynced, on a Node, records what older versions of drover had put on the Node. It is not read, and is removed with the
	// next patch of the Node. The record is in status.nodeMarks of the Machine now.
	AnnotationNodeSynced = Prefix + "synced"
	// LabelTokenMachine, on a bootstrap token Secret, is the UID of the Machine that the token is for.
	LabelTokenMachine = Prefix + "machine-uid"

	// AnnotationNoCreate, on a MachineSet, "true": the set creates no Machines. drover-deployment sets it on the old sets of an OnDelete
	// deployment, so that the new set replaces what is deleted by hand.
	AnnotationNoCreate = Prefix + "no-create"

	// AnnotationRolloutRecord, on a MachineSet, "true": spec.rolloutRemovals has every Machine that a rollout removed from the set. Sets of
	// machine-controller and of older versions of drover lack it: Machines that are leaving them when they first roll under drover count as
	// removed by the rollout.
	AnnotationRolloutRecord = Prefix + "rollout-record"

	// AnnotationReleasedBy, on a Machine, is the UID of the set that released it when its labels no longer matched. The Machine counts
	// towards the runaway limit of that set while it exists.
	AnnotationReleasedBy = Prefix + "released-by"
	// AnnotationNodeRolling, on a Node, records which deployment rolls it and what drover put on it for that.
	AnnotationNodeRolling = Prefix + "rolling"
	// AnnotationScaleDownDisabled, on a Node, "true": the cluster-autoscaler does not remove it. drover sets it on Nodes that are being
	// rolled, and removes only what it set.
	AnnotationScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

	AnnotationRevision        = "machinedeployment.clusters.k8s.io/revision"
	AnnotationRevisionHistory = "machinedeployment.clusters.k8s.io/revision-history"
	AnnotationDesiredReplicas = "machinedeployment.clusters.k8s.io/desired-replicas"
	AnnotationMaxReplicas     = "machinedeployment.clusters.k8s.io/max-replicas"
)

// DefaultStartupTaint is on a node from its registration until it is ready to take pods (effect NoSchedule).
const DefaultStartupTaint = "node.syseleven.de/not-ready"

// TaintUninitialized is on a node whose kubelet runs with --cloud-provider=external, from its registration until the
// cloud-controller-manager has initialized it (effect NoSchedule).
const TaintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// TaintRolling is on a node whose Machine is of an old template while its deployment rolls (effect PreferNoSchedule).
const TaintRolling = Prefix + "rolling"

// TaintDeleting is on a Node from the moment its Machine is being deleted (effect NoSchedule).
const TaintDeleting = Prefix + "deleting"

// Condition types of a Machine.
const (
	// ConditionReady is False until the first start of the Node is complete; then it follows the Node's Ready condition.
	ConditionReady = "Ready"
	// ConditionServerReady means that the server is ACTIVE.
	ConditionServerReady = Prefix + "ServerReady"
	// ConditionSpecValid means that the provider spec could be read and resolved.
	ConditionSpecValid = Prefix + "SpecValid"
	// ConditionDeleting describes the step of the deletion that drover waits for.
	ConditionDeleting = Prefix + "Deleting"
	// ConditionWarnings names values in spec and annotations that are accepted without effect.
	ConditionWarnings = Prefix + "Warnings"
	// ConditionConsole holds the end of the console output of a server that did not become a node in time, or that shows an error before
	// then.
	ConditionConsole = Prefix + "Console"
	// ConditionHealthy is False while the Node is unhealthy after its first start was complete. The message describes since when, and when
	// the Machine is replaced or why not. A Machine that was always healthy does not have this condition.
	ConditionHealthy = Prefix + "Healthy"
)

// Condition types of MachineSets and MachineDeployments.
const (
	ConditionAvailable   = "Available"
	ConditionProgressing = "Progressing"
	// ConditionOthersApprove, on a MachineDeployment, exists while another program approves the certificate requests of bootstrap tokens,
	// too. The message names what allows that.
	ConditionOthersApprove = Prefix + "OthersApprove"
	// ConditionReplicaFailure, on a MachineSet: the set cannot create its Machines. Its reason is the errorReason.
	ConditionReplicaFailure = "ReplicaFailure"
	// ConditionDegraded, on a MachineDeployment: a rollout stopped at its deadline, Machines failed, or a set cannot create its Machines.
	ConditionDegraded = "Degraded"
	// ConditionBoundsValid means that the min and max annotations could be read.
	ConditionBoundsValid = Prefix + "BoundsValid"
	// ConditionTemplateResolved means that the cloud has what the template names; status.nodeTemplate is current.
	ConditionTemplateResolved = Prefix + "TemplateResolved"
	// ConditionFrozen, on a MachineDeployment and its MachineSets: the group has far more Machines than its size allows. Until the freeze
	// ends, the sets create no Machines, and the autoscaler's scale-ups are refused; everything else works.
	ConditionFrozen = Prefix + "Frozen"
	// ConditionRepairHeld exists while unhealthy Machines are not replaced because too many are unhealthy at the same time. The reason
	// names the scope.
	ConditionRepairHeld = Prefix + "RepairHeld"
)
