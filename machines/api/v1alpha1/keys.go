package v1alpha1

// Prefix begins every label, annotation, condition type and finalizer that drover invents.
const Prefix = "drover-project.github.io/"

// Finalizers. The names are machine-controller's, so that either program can finish the other's work.
const (
	// FinalizerServer, on a Machine: its server and what belongs to it may exist in the cloud.
	FinalizerServer = "machine-delete-finalizer"
	// FinalizerNode, on a Machine: its Node may exist.
	FinalizerNode = "machine-node-delete-finalizer"
	// FinalizerFloatingIP, on a Machine: a floating IP of its own may exist. The annotation of the same name holds its
	// ID on Machines that machine-controller made.
	FinalizerFloatingIP = "kubermatic.io/release-openstack-floating-ip"
	// FinalizerInUse, on a MachineClass and the Secrets that it names: a deployment, a set or a Machine uses the class.
	FinalizerInUse = Prefix + "in-use"
)

// Annotations that people set.
const (
	// AnnotationDeleteMachine, on a Machine, any non-empty value: it goes first when its set shrinks. It lowers nothing.
	AnnotationDeleteMachine = "cluster.k8s.io/delete-machine"
	// AnnotationSkipEviction, on a Node, any value: its pods are not evicted when its Machine goes.
	AnnotationSkipEviction = "kubermatic.io/skip-eviction"
	// AnnotationInitializers, on a Machine, non-empty: no server is made yet.
	AnnotationInitializers = "machine-controller.kubermatic.io/initializers"
	// LabelController, on a Machine: which program's it is, by the name that was given to that one; empty: drover's, unless
	// drover was given a name too (--name).
	LabelController = "machine.k8s.io/controller"
	// AnnotationBypassImmutable, on a Machine, "true": the admission policy lets its spec change.
	AnnotationBypassImmutable = "kubermatic.io/bypass-no-spec-mutation-requirement"
	// AnnotationPriority, on a Machine, a whole number, default 3: among the Machines of a shrinking set the lowest goes
	// first. SysEleven's and Gardener's key.
	AnnotationPriority = "machinepriority.machine.sapcloud.io"
	// AnnotationPaused and AnnotationPausedCAPI, on any of the kinds, any value (also "false"): all controllers leave the
	// object alone. See [Paused].
	AnnotationPaused     = "cluster.k8s.io/paused"
	AnnotationPausedCAPI = "cluster.x-k8s.io/paused"
	// AnnotationAllowSkew, on a Machine's template, "true": a kubelet outside the version skew is accepted.
	AnnotationAllowSkew = Prefix + "allow-version-skew"
	// AnnotationRollbackTo, on a MachineDeployment, a revision (0: the one before the present): its template comes back.
	// drover takes the annotation off in the same write.
	AnnotationRollbackTo = Prefix + "rollback-to"
	// AnnotationUnfreeze, on a MachineDeployment or a MachineSet, any value: a freeze of its group is lifted once. drover takes
	// the annotation off in the same write. AnnotationUnfreezeMCM is machine-controller-manager's name for it.
	AnnotationUnfreeze    = Prefix + "unfreeze"
	AnnotationUnfreezeMCM = "safety.machine.sapcloud.io/unfreeze"
	// AnnotationForceDelete, on a Machine, "true": it is let go even when the cloud cannot be asked.
	AnnotationForceDelete = Prefix + "force-delete"
	// AnnotationAdopt, on a Machine, the ID of a server: an operator allows drover to take that server over although its mark
	// names another Machine, as after a restore of the cluster. It counts only while the admission policies guard it, when no
	// Machine has the UID that the server's mark names, when the server has the Machine's name, and when it has no other
	// cluster's mark. See [GuardedAnnotations].
	AnnotationAdopt = Prefix + "adopt"
	// AnnotationCollect, on the ConfigMap of the cluster id, "yes": a person has said that losses in masses are right, and
	// that what has no owner may be collected (the mass-deletion guards are lifted as long as it is set).
	AnnotationCollect = Prefix + "collect"
	// AnnotationAllowDeletion, on a CustomResourceDefinition of drover, "true": it may be deleted, and the servers of the
	// Machines that go with it too. Without it the policy of deploy/crds refuses the deletion, and where that policy is
	// missing drover drains and deletes nothing.
	AnnotationAllowDeletion = Prefix + "allow-deletion"
	// AnnotationDrainTimeout, AnnotationVolumeDetachTimeout and AnnotationJoinTimeout, on a MachineDeployment or a Machine
	// (which wins), are durations such as 30m that take the place of the flags' values, also in a running drain.
	AnnotationDrainTimeout        = Prefix + "drain-timeout"
	AnnotationVolumeDetachTimeout = Prefix + "volume-detach-timeout"
	AnnotationJoinTimeout         = Prefix + "join-timeout"
	// AnnotationHealthTimeout, on a MachineDeployment, a set without a deployment, or a Machine (which wins), is how long its Node
	// may be unhealthy before the Machine is replaced, as a duration such as 30m. 0 or never: it is not replaced.
	AnnotationHealthTimeout = Prefix + "health-timeout"
	// AnnotationHealthMaxReplacing, on a MachineDeployment or a set without a deployment, is how many of its Machines are
	// replaced at once because they are unhealthy, as a number or a percentage of its size (rounded up, at least one).
	AnnotationHealthMaxReplacing = Prefix + "health-max-replacing"
	// AnnotationSkipHealth, on a Machine, a set without a deployment, or a MachineDeployment, "true": unhealthy Machines are not
	// replaced, and a server that somebody stopped is not started. See [SkipsHealth].
	AnnotationSkipHealth = Prefix + "skip-health"
	// AnnotationSkipHealthCAPI, on the same objects, any value: the same. Cluster API's key.
	AnnotationSkipHealthCAPI = "cluster.x-k8s.io/skip-remediation"
	// AnnotationReplace, on a Machine, "true": it is replaced as if it had been unhealthy for long, before all others.
	AnnotationReplace = Prefix + "replace"
	// AnnotationReplaceCAPI, on a Machine, any value: the same. Cluster API's key.
	AnnotationReplaceCAPI = "cluster.x-k8s.io/remediate-machine"
)

// GuardedAnnotations are annotations of a Machine, or of a template, that only drover may set, and users who may update
// machines/status in that namespace: the policies drover-guard-machines and drover-guard-groups enforce this. drover must not
// rely on one of them while those policies are not in force (package machines/guard).
var GuardedAnnotations = []string{FinalizerFloatingIP, AnnotationAdopt, AnnotationReleasedBy}

// Annotations that bound a node group: whole numbers. The keys are tried in this order; max decides whether the
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
	// AnnotationCapacity begins the annotations that say what a group's nodes have, over what the flavor says: cpu,
	// memory, ephemeral-disk, maxPods, gpu-type, gpu-count, labels, taints. The autoscaler's own names, of its Cluster
	// API provider.
	AnnotationCapacity = "capacity.cluster-autoscaler.kubernetes.io/"
	// AnnotationOptions and AnnotationOptionsCAPI begin the annotations that override flags of the autoscaler for one
	// group: scaledownutilizationthreshold, scaledowngpuutilizationthreshold, scaledownunneededtime,
	// scaledownunreadytime, maxnodeprovisiontime, ignoredaemonsetsutilization, zeroormaxnodescaling.
	AnnotationOptions     = "cluster.k8s.io/autoscaling-options-"
	AnnotationOptionsCAPI = "cluster.x-k8s.io/autoscaling-options-"
)

// Labels and annotations that drover writes.
const (
	// AnnotationNodeGroup, on the template node that the autoscaler is shown, is the id of the node group. It is an
	// annotation, because a label would make sister groups look different to the autoscaler (CA-C102).
	AnnotationNodeGroup = Prefix + "node-group"
	// LabelFreeze, on a MachineDeployment and its MachineSets, [Frozen]: the sets make no Machine (see [ConditionFrozen]). The
	// key and the value are machine-controller-manager's.
	LabelFreeze = "freeze"
	// Frozen is the value of LabelFreeze. Any other means nothing.
	Frozen = "True"
	// LabelTemplateHash, on sets and Machines, tells the sets of a deployment apart.
	LabelTemplateHash = "machine-template-hash"
	// LabelOwnedBy, on a Node, is the UID of its Machine.
	LabelOwnedBy = "machine-controller/owned-by"
	// LabelOperatingSystem, on a Node, is the operatingSystem of its Machine's provider spec. machine-controller puts it
	// there, and KubeOne's addons select Nodes by it.
	LabelOperatingSystem = "v1.machine-controller.kubermatic.io/operating-system"
	// LabelPhysicalHost, on a Node, identifies the physical host of its server within the project.
	LabelPhysicalHost = "machine-controller/physical-host-id"
	// AnnotationNodeMachine, on a Node, is <namespace>/<name> of its Machine.
	AnnotationNodeMachine = "cluster.k8s.io/machine"
	// AnnotationUnmanaged, on a Node, "true": it never had drover's marks and no Machine has it. drover puts it there when the
	// Node has been there for a while, and takes it off when a Machine turns up. Nodes of the control plane never have it.
	AnnotationUnmanaged = Prefix + "unmanaged"
	// AnnotationNodeSynced, on a Node, is the record of older versions of what they had put there. It is not read, and is
	// removed with the next patch of the Node: status.nodeMarks of the Machine has the record.
	AnnotationNodeSynced = Prefix + "synced"
	// LabelTokenMachine, on a bootstrap token Secret, is the UID of the Machine it is for.
	LabelTokenMachine = Prefix + "machine-uid"

	// AnnotationNoCreate, on a MachineSet, "true": it makes no Machines. drover-deployment puts it on the old sets of an
	// OnDelete deployment, so that what a person deletes there comes back in the new set.
	AnnotationNoCreate = Prefix + "no-create"

	// AnnotationRolloutRecord, on a MachineSet, "true": spec.rolloutRemovals has every Machine that a rollout removed from
	// the set. Sets of machine-controller and of older versions of drover lack it: what leaves them when they first roll
	// under drover counts as removed by the rollout.
	AnnotationRolloutRecord = Prefix + "rollout-record"

	// AnnotationReleasedBy, on a Machine, is the UID of the set that released it when its labels no longer matched. It
	// counts towards that set's ceiling as long as it is there.
	AnnotationReleasedBy = Prefix + "released-by"
	// AnnotationNodeRolling, on a Node, records which deployment is rolling it and what drover put there for that.
	AnnotationNodeRolling = Prefix + "rolling"
	// AnnotationScaleDownDisabled, on a Node, "true": the cluster-autoscaler does not remove it. drover puts it on nodes
	// that are being rolled, and takes off what it put.
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

// TaintDeleting is on a node from the moment its Machine goes (effect NoSchedule).
const TaintDeleting = Prefix + "deleting"

// Condition types of a Machine.
const (
	// ConditionReady is False until the first start of the Node is complete; then it follows the Node's Ready condition.
	ConditionReady = "Ready"
	// ConditionServerReady: the server is ACTIVE.
	ConditionServerReady = Prefix + "ServerReady"
	// ConditionSpecValid: the provider spec could be read and resolved.
	ConditionSpecValid = Prefix + "SpecValid"
	// ConditionDeleting says which step of the deletion is waited for.
	ConditionDeleting = Prefix + "Deleting"
	// ConditionWarnings names what of spec and annotations is accepted without effect.
	ConditionWarnings = Prefix + "Warnings"
	// ConditionConsole holds the end of the console of a server that did not become a node in time, or that looks before
	// then as if it would not.
	ConditionConsole = Prefix + "Console"
	// ConditionHealthy is False while the Node is unhealthy after its first start was complete; the message says since when, and
	// when the Machine is replaced or what holds that back. A Machine that was always healthy has no such condition.
	ConditionHealthy = Prefix + "Healthy"
)

// Condition types of MachineSets and MachineDeployments.
const (
	ConditionAvailable   = "Available"
	ConditionProgressing = "Progressing"
	// ConditionOthersApprove, on a MachineDeployment, while it is so: somebody beside drover approves the certificate
	// requests of bootstrap tokens; the message names what allows it.
	ConditionOthersApprove = Prefix + "OthersApprove"
	// ConditionReplicaFailure, on a MachineSet: it cannot make its Machines; the reason is that of its errorReason.
	ConditionReplicaFailure = "ReplicaFailure"
	// ConditionDegraded, on a MachineDeployment: a rollout stopped at its deadline, Machines failed, or a set cannot make
	// its Machines.
	ConditionDegraded = "Degraded"
	// ConditionBoundsValid: the min and max annotations could be read.
	ConditionBoundsValid = Prefix + "BoundsValid"
	// ConditionTemplateResolved: the cloud knows what the template names; status.nodeTemplate is current.
	ConditionTemplateResolved = Prefix + "TemplateResolved"
	// ConditionFrozen, on a MachineDeployment and its MachineSets: the group has far more Machines than its size allows. Until
	// it is lifted the sets make no Machine, and the autoscaler's orders are refused; everything else works.
	ConditionFrozen = Prefix + "Frozen"
	// ConditionRepairHeld, while it is so: unhealthy Machines are not replaced because too many are unhealthy at once; the reason
	// says where.
	ConditionRepairHeld = Prefix + "RepairHeld"
)
