package v1alpha1

// Prefix begins every label, annotation, condition type and finalizer that drover defines.
const Prefix = "drover-project.github.io/"

// Finalizers. machine-controller uses the same names, so that either program can finish a deletion that the other one began.
const (
	// FinalizerServer, on a Machine, means that its server, or other resources of the Machine, may exist in the cloud.
	FinalizerServer = "machine-delete-finalizer"
	// FinalizerNode, on a Machine, means that its Node may exist.
	FinalizerNode = "machine-node-delete-finalizer"
	// FinalizerFloatingIP, on a Machine, means that a floating IP that was created for the Machine may exist. On Machines that
	// machine-controller created, the annotation of the same name holds the ID of the floating IP.
	FinalizerFloatingIP = "kubermatic.io/release-openstack-floating-ip"
	// MachineControllerPrefix begins the finalizers that machine-controller puts on Machines for single operating systems or clouds. drover
	// removes them at the end of a Machine's deletion.
	MachineControllerPrefix = "kubermatic.io/"
	// FinalizerInUse, on a MachineClass, means that a deployment, a set or a Machine uses the class.
	FinalizerInUse = Prefix + "in-use"
)

// Annotations that users set.
const (
	// AnnotationDeleteMachine and AnnotationDeleteMachineCAPI, on a Machine, with any value: when the Machine's group shrinks, this Machine is
	// deleted first. The annotation does not lower the size of the group. See [FirstToDelete].
	AnnotationDeleteMachine     = "cluster.k8s.io/delete-machine"
	AnnotationDeleteMachineCAPI = "cluster.x-k8s.io/delete-machine"
	// AnnotationSkipEviction, on a Node, with any value: drover does not evict the Node's pods when the Node's Machine is deleted.
	AnnotationSkipEviction = "kubermatic.io/skip-eviction"
	// AnnotationInitializers, on a Machine, with a non-empty value: drover does not create a server for the Machine yet.
	AnnotationInitializers = "machine-controller.kubermatic.io/initializers"
	// LabelController, on a Machine, is the name of the program that manages the Machine. drover manages Machines whose label equals its own
	// name (--name); by default, these are the Machines without the label. The label has no effect on sets and deployments.
	LabelController = "machine.k8s.io/controller"
	// AnnotationBypassImmutable, on a Machine, with the value "true": the admission policy allows changes of the Machine's spec.
	AnnotationBypassImmutable = "kubermatic.io/bypass-no-spec-mutation-requirement"
	// AnnotationPriority, on a Machine, is a whole number; the default is 3. When the Machine's set shrinks, the Machine with the
	// lowest number is deleted first. SysEleven and Gardener use the same key.
	AnnotationPriority = "machinepriority.machine.sapcloud.io"
	// AnnotationPaused and AnnotationPausedCAPI, on an object of any of the kinds, with any value (even "false"): all controllers leave the
	// object alone. See [Paused].
	AnnotationPaused     = "cluster.k8s.io/paused"
	AnnotationPausedCAPI = "cluster.x-k8s.io/paused"
	// AnnotationAllowSkew, on a Machine's template, with the value "true": drover accepts a kubelet version outside the version skew
	// policy.
	AnnotationAllowSkew = Prefix + "allow-version-skew"
	// AnnotationRollbackTo, on a MachineDeployment, is the revision whose template drover restores; 0 means the previous revision. drover
	// removes the annotation in the write that restores the template.
	AnnotationRollbackTo = Prefix + "rollback-to"
	// AnnotationUnfreeze, on a MachineDeployment or a MachineSet, with any value: a frozen set makes once the Machines that it lacks. drover
	// removes the annotation. machine-controller-manager uses the key AnnotationUnfreezeMCM for the same purpose.
	AnnotationUnfreeze    = Prefix + "unfreeze"
	AnnotationUnfreezeMCM = "safety.machine.sapcloud.io/unfreeze"
	// AnnotationForceDelete, on a Machine, with the value "true": drover removes the Machine's finalizers even when it cannot reach the
	// cloud.
	AnnotationForceDelete = Prefix + "force-delete"
	// AnnotationAdopt, on a Machine, is the ID of a server. With this annotation an operator allows drover to take over the server
	// although the server's owner tag names another Machine, for example after the cluster was restored from a backup. The annotation has
	// an effect only while the admission policies protect it, when no Machine has the UID in the server's owner tag, when the server has
	// the Machine's name, and when the server has no owner tag of another cluster. See [GuardedAnnotations].
	AnnotationAdopt = Prefix + "adopt"
	// AnnotationCollect, on the ConfigMap drover-orphans, names the orphans that a person allows drover to delete: IDs of resources,
	// names of Nodes, UIDs of Machines, or projects as the report there writes them. drover removes it when it has read it.
	AnnotationCollect = Prefix + "collect"
	// AnnotationAllowDeletion, on one of drover's CRDs, with the value "true": the CRD may be deleted, and the servers of its Machines
	// are deleted too. Without the annotation, the policy in deploy/crds refuses the deletion. Where that policy is missing, drover
	// drains and deletes nothing while one of its CRDs is being deleted without the annotation, or is missing while the CRD of Machines
	// lacks the annotation.
	AnnotationAllowDeletion = Prefix + "allow-deletion"
	// AnnotationDrainTimeout, AnnotationVolumeDetachTimeout and AnnotationJoinTimeout, on a MachineDeployment or a Machine, are
	// durations such as 30m. They replace the values of the flags, even for a drain that is running. The Machine's annotation takes
	// precedence.
	AnnotationDrainTimeout        = Prefix + "drain-timeout"
	AnnotationVolumeDetachTimeout = Prefix + "volume-detach-timeout"
	AnnotationJoinTimeout         = Prefix + "join-timeout"
	// AnnotationHealthTimeout, on a MachineDeployment, a set without a deployment, or a Machine, is how long a Machine's Node may be
	// unhealthy before drover replaces the Machine, as a duration such as 30m. With 0 or never, drover does not replace it. The Machine's
	// annotation takes precedence.
	AnnotationHealthTimeout = Prefix + "health-timeout"
	// AnnotationHealthMaxReplacing, on a MachineDeployment or a set without a deployment, is how many unhealthy Machines of the group
	// drover replaces at the same time. It is a number, or a percentage of the group's size (rounded up, at least one).
	AnnotationHealthMaxReplacing = Prefix + "health-max-replacing"
	// AnnotationSkipHealth, on a Machine, a set without a deployment, or a MachineDeployment, with the value "true": drover neither
	// replaces unhealthy Machines nor starts servers that another client has stopped. See [SkipsHealth].
	AnnotationSkipHealth = Prefix + "skip-health"
	// AnnotationSkipHealthCAPI, on a Machine, a set or a MachineDeployment, with any value, has the same effect as AnnotationSkipHealth.
	// The key is Cluster API's.
	AnnotationSkipHealthCAPI = "cluster.x-k8s.io/skip-remediation"
	// AnnotationReplace, on a Machine, with the value "true": drover replaces this Machine before all others, as if it had been
	// unhealthy for a long time.
	AnnotationReplace = Prefix + "replace"
	// AnnotationReplaceCAPI, on a Machine, with any value, has the same effect as AnnotationReplace. The key is Cluster API's.
	AnnotationReplaceCAPI = "cluster.x-k8s.io/remediate-machine"
)

// GuardedAnnotations lists annotations of a Machine, or of a template, that may be set only by drover and by users who may update
// machines/status in that namespace. The policies drover-guard-machines and drover-guard-groups enforce this. drover must not rely on any
// of these annotations while the policies are not in force (package machines/guard).
var GuardedAnnotations = []string{FinalizerFloatingIP, AnnotationAdopt}

// Annotations with the minimum and the maximum size of a node group, as whole numbers. The first key of each list that an object has is
// used. A deployment without a maximum is not a node group.
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
	// AnnotationCapacity is the prefix of the annotations that describe a group's nodes, in place of the values of the flavor and at most
	// these: cpu, memory, ephemeral-disk, maxPods, gpu-type, gpu-count, labels, taints. The names are those of the autoscaler's Cluster
	// API provider.
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
	// LabelFreeze, on a frozen MachineSet and its MachineDeployment, with the value [Frozen]. It shows what [ConditionFrozen] says, and decides
	// nothing. The key and the value are machine-controller-manager's.
	LabelFreeze = "freeze"
	// Frozen is the value of LabelFreeze. Other values have no effect.
	Frozen = "True"
	// LabelTemplateHash, on sets and Machines, distinguishes the sets of a deployment.
	LabelTemplateHash = "machine-template-hash"
	// AnnotationOwnedBy, on a Node, is the UID of its Machine. It is an annotation, because with labels that differ from node to node
	// the autoscaler finds no similar groups (F-124).
	AnnotationOwnedBy = LabelOwnedBy
	// LabelOwnedBy is the same UID as a label of the Node, as machine-controller and older versions of drover set it. drover reads the
	// label, and replaces it with the annotation.
	LabelOwnedBy = "machine-controller/owned-by"
	// LabelGPU, on a Node, is the type of the Node's GPUs. drover reports this key to the autoscaler as the label of nodes with GPUs. A Node
	// has it only while it reports GPUs and its Machine is not being deleted: the autoscaler scales nothing while a node has that label and
	// neither a GPU nor a group (F-125).
	LabelGPU = Prefix + "gpu"
	// LabelManaged, on a Node, with the value "true", means that the Node has a Machine.
	LabelManaged = Prefix + "managed"
	// LabelOperatingSystem, on a Node, is the operatingSystem of its Machine's provider spec. machine-controller sets it, and KubeOne's
	// addons select Nodes by it.
	LabelOperatingSystem = "v1.machine-controller.kubermatic.io/operating-system"
	// LabelPhysicalHost, on a Node, identifies the physical host of its server within the project. Nodes have it only on the operator's
	// request, because it differs from node to node (see [LabelOwnedBy]).
	LabelPhysicalHost = "machine-controller/physical-host-id"
	// AnnotationNodeMachine, on a Node, is <namespace>/<name> of its Machine.
	AnnotationNodeMachine = "cluster.k8s.io/machine"
	// AnnotationUnmanaged, on a Node, with the value "true", means that the Node has never had a Machine. drover sets the annotation
	// when such a Node has existed for a while, and removes it when the Node gets a Machine. drover never sets it on Nodes of the
	// control plane.
	AnnotationUnmanaged = Prefix + "unmanaged"
	// AnnotationNodeSynced, on a Node, records what older versions of drover put on the Node. drover no longer reads it, and removes it
	// with the next patch of the Node. Now status.nodeMarks of the Machine holds the record.
	AnnotationNodeSynced = Prefix + "synced"
	// LabelTokenMachine, on a bootstrap token Secret, is the UID of the Machine that the token is for.
	LabelTokenMachine = Prefix + "machine-uid"

	// AnnotationNoCreate, on a MachineSet, with the value "true": the set creates no Machines. drover-deployment sets it on the old sets
	// of an OnDelete deployment, so that the new set replaces the Machines that a user deletes.
	AnnotationNoCreate = Prefix + "no-create"

	// AnnotationRolloutRecord, on a MachineSet, with the value "true", means that spec.rolloutRemovals lists every Machine that a rollout
	// removed from the set. Sets of machine-controller and of older versions of drover do not have the annotation. When such a set first
	// rolls under drover, its Machines that are being deleted count as removed by the rollout.
	AnnotationRolloutRecord = Prefix + "rollout-record"

	// AnnotationDecided, on a MachineSet with a deployment, is <size>.<hash>: the size and the hash of the template that the deployment decided
	// last. drover-deployment writes it together with the size. The set follows no other size or template, so that it never acts on what
	// another client writes into it before the deployment has set that back.
	AnnotationDecided = Prefix + "decided"

	// AnnotationStoredTemplate, on a MachineSet, holds two hashes: of the template that drover wrote, and of the template that the API server
	// stored in its place. drover-deployment writes it when the two differ after the create.
	AnnotationStoredTemplate = Prefix + "stored-template"
	// AnnotationNodeRolling, on a Node, records which deployment rolls the Node, and what drover put on the Node for the rollout.
	AnnotationNodeRolling = Prefix + "rolling"
	// AnnotationScaleDownDisabled, on a Node, with the value "true": the cluster-autoscaler does not remove the Node. drover sets it on
	// Nodes that are being rolled, and removes only annotations that drover set itself.
	AnnotationScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

	AnnotationRevision        = "machinedeployment.clusters.k8s.io/revision"
	AnnotationRevisionHistory = "machinedeployment.clusters.k8s.io/revision-history"
	AnnotationDesiredReplicas = "machinedeployment.clusters.k8s.io/desired-replicas"
	AnnotationMaxReplicas     = "machinedeployment.clusters.k8s.io/max-replicas"
)

// DefaultStartupTaint is the taint of a node from its registration until the node is ready to take pods (effect NoSchedule).
const DefaultStartupTaint = "node.syseleven.de/not-ready"

// TaintUninitialized is on a node whose kubelet runs with --cloud-provider=external, from its registration until the
// cloud-controller-manager has initialized it (effect NoSchedule).
const TaintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// TaintAwaitsGPU is on a Node that has the label of GPUs and does not report any (effect PreferNoSchedule). Its prefix makes it a startup
// taint for the autoscaler, which counts the Node as starting. Its effect lets the pods run that install the GPU's driver.
const TaintAwaitsGPU = "ignore-taint.cluster-autoscaler.kubernetes.io/drover-gpu"

// TaintRolling is on a node while its deployment rolls and its Machine has an old template (effect PreferNoSchedule).
const TaintRolling = Prefix + "rolling"

// TaintDeleting is on a Node from the moment at which the deletion of its Machine begins (effect NoSchedule).
const TaintDeleting = Prefix + "deleting"

// TaintMachineGone is on a Node whose kubelet reports although the Node's Machine and server are gone (effect NoExecute).
const TaintMachineGone = Prefix + "machine-gone"

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
	// ConditionWarnings names values in spec and annotations that drover accepts although they have no effect.
	ConditionWarnings = Prefix + "Warnings"
	// ConditionConsole holds the end of the server's console output. It exists when the server did not become a node in time, or when
	// the output shows an error before that.
	ConditionConsole = Prefix + "Console"
	// ConditionHealthy is False while the Node is unhealthy, provided that its first start was complete before. The message describes
	// since when the Node is unhealthy, and when the Machine is replaced or why it is not replaced. A Machine that was always healthy
	// does not have this condition.
	ConditionHealthy = Prefix + "Healthy"
)

// Condition types of MachineSets and MachineDeployments.
const (
	ConditionAvailable   = "Available"
	ConditionProgressing = "Progressing"
	// ConditionReplicaFailure, on a MachineSet, means that the set cannot create its Machines. Its reason is the same as
	// status.errorReason.
	ConditionReplicaFailure = "ReplicaFailure"
	// ConditionDegraded, on a MachineDeployment, means that a rollout stopped at its deadline, that Machines failed, or that a set cannot
	// create its Machines.
	ConditionDegraded = "Degraded"
	// ConditionBoundsValid means that the min and max annotations could be read.
	ConditionBoundsValid = Prefix + "BoundsValid"
	// ConditionTemplateResolved means that the cloud has everything that the template names, and that status.nodeTemplate is current.
	ConditionTemplateResolved = Prefix + "TemplateResolved"
	// ConditionFrozen, on a MachineSet and its MachineDeployment, means that the set lacks Machines and creates none, because there are far more
	// than the size allows. Until that ends, drover refuses the autoscaler's scale-ups of the group. Everything else works.
	ConditionFrozen = Prefix + "Frozen"
	// ConditionRepairHeld exists while drover does not replace unhealthy Machines because too many Machines are unhealthy at the same
	// time. The reason names the scope in which there are too many.
	ConditionRepairHeld = Prefix + "RepairHeld"
)
