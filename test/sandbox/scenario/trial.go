package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
)

// Trial causes a fault while an autoscaler works, and checks what must be true at the end. Each trial begins in an empty
// cluster.
type Trial struct {
	Name    string
	Setting Setting
	Limit   time.Duration
	// Run causes the fault, and returns nil only when the required outcome is reached. The note is what Run saw.
	Run func(ctx context.Context, d *Demo) (note string, err error)
}

// Setting is the configuration of a trial's sandbox. Trials with the same setting share a sandbox.
type Setting string

// The settings.
const (
	// Plain has two replicas of drover, and an autoscaler that gives up a server after 45 s.
	Plain Setting = "plain"
	// Priced has prices, and an autoscaler that chooses groups by price.
	Priced Setting = "price expander"
	// SlowCloud has a cloud-controller-manager that checks for new Nodes every 10 s.
	SlowCloud Setting = "slow cloud-controller-manager"
	// Accelerated has a node label that tells the type of GPU.
	Accelerated Setting = "GPU label"
	// Guarded starts drover with the guard against restarts of the autoscaler.
	Guarded Setting = "restart guard"
	// Healing has short times for health checks and orphans, and an autoscaler that leaves Nodes that are not Ready to
	// drover.
	Healing Setting = "healing"
)

const (
	// silent is the group whose servers never join.
	silent     = "silent"
	pricesName = "drover-prices"
	// gpuLabel is the value of --gpu-label.
	gpuLabel = "accelerator"
)

// Apply applies a setting to a sandbox's options.
func (s Setting) Apply(o *sandbox.Options) {
	o.Replicas, o.DroverFlags, o.AutoscalerFlags = 2, slices.Clip(o.DroverFlags), slices.Clip(o.AutoscalerFlags)
	o.Boots = func(s openstack.Server) bool { return !strings.HasPrefix(s.Name, silent+"-") }
	o.Scaling.MaxNodeProvisionTime = 45 * time.Second
	o.AutoscalerFlags = append(o.AutoscalerFlags, "--max-node-provision-time=45s")
	switch s {
	case SlowCloud:
		o.CloudControllerInterval = 10 * time.Second
	case Priced:
		o.Scaling.PriceExpander = true
		o.AutoscalerFlags = append(o.AutoscalerFlags, "--expander=price")
		o.DroverFlags = append(o.DroverFlags, "--features=prices")
	case Accelerated:
		o.DroverFlags = append(o.DroverFlags, "--gpu-label="+gpuLabel)
	case Guarded:
		o.DroverFlags = append(o.DroverFlags, "--features=restart-guard")
	case Healing:
		o.Scaling.ScaleDownUnreadyTime = time.Hour
		o.AutoscalerFlags = append(o.AutoscalerFlags, "--scale-down-unready-time=1h")
		o.DroverFlags = append(o.DroverFlags, "--health-timeout=10s", "--orphan-age=10s")
	}
}

// Trials returns all trials, sorted by setting.
func Trials() []Trial {
	const limit = 3 * time.Minute
	return []Trial{
		{"a full server group: the other group grows within seconds", Plain, limit, fullServerGroup},
		{"no host has room in one zone: the other group grows within seconds", Plain, limit, noRoom},
		{"servers that never join: given up, and the other group grows", Plain, limit, neverJoins},
		{"drover is killed in the middle of a scale-up", Plain, limit, droverKilled},
		{"fail-over to the other drover in the middle of a scale-up", Plain, limit, failedOver},
		{"the autoscaler is killed in the middle of a scale-up", Plain, limit, autoscalerKilled},
		{"kubectl scale and a changed template while the autoscaler scales", Plain, limit, changedMeanwhile},
		{"from zero, by labels and a taint", Plain, limit, fromZero},
		{"groups that differ in their zone alone grow evenly", Plain, limit, evenly},
		{"groups with nodes that differ in their zone alone grow evenly", Plain, 4 * time.Minute, evenlyWithNodes},
		{"the empty node goes, and no other", Plain, limit, exactNode},
		{"drover is killed in the middle of a scale-down of eight", Plain, limit, droverKilledInScaleDown},
		{"fail-over to the other drover in the middle of a scale-down of eight", Plain, limit, failedOverInScaleDown},
		{"a server is deleted by hand: it is replaced, and no other node goes", Plain, limit, serverVanishes},
		{"a group at its minimum has no room: the other group grows, and the minimum is reached later", Plain, 5 * time.Minute, failsAtMinimum},
		{"the cloud-controller-manager dies in a rollout: it stands still, and ends later", Plain, limit, initializerDies},
		{"nodes that are initialized late are ordered once", SlowCloud, limit, initializedLate},
		{"nodes of a group with options that are initialized late are ordered once", SlowCloud, limit, initializedLateWithOptions},
		{"the cheaper group grows, though it wastes more", Priced, limit, cheaper},
		{"a node with the GPU label leaves, held by a budget: another group grows and shrinks", Accelerated, limit, gpuNodeLeaves},
		{"the autoscaler is killed in the middle of a scale-up, with a guard", Guarded, limit, autoscalerKilledGuarded},
		{"a node dies: it is replaced, and its pod runs again", Healing, limit, nodeDies},
		{"a host dies: its nodes are replaced together", Healing, limit, hostDies},
		{"a zone is cut off: nothing is replaced, and its nodes come back", Healing, limit, zoneCutOff},
		{"a server loses its Machine: it is drained and collected", Healing, limit, machineLost},
	}
}

// Try runs one trial and deletes everything that the trial created.
func Try(ctx context.Context, d *Demo, t Trial) Result {
	r := runStage(ctx, d, Stage{Name: t.Name, Limit: t.Limit, Run: t.Run})
	if r.Err != nil {
		return r
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("what the trial made is not gone after a minute"))
	defer cancel()
	r.Err = d.clear(ctx)
	return r
}

// peak watches the groups' sizes and the cloud's servers until highest is called.
type peak struct {
	stop func()
	high highs
}

// highs are the largest size of each group, the largest sum of sizes, and the largest number of servers.
type highs struct {
	each         sizes
	sum, servers int
}

func (d *Demo) watchPeak(ctx context.Context) *peak {
	p := &peak{high: highs{each: sizes{}}}
	p.stop = sandbox.Sample(ctx, func(ctx context.Context) {
		if now, err := d.wanted(ctx); err == nil {
			p.high.see(now)
		}
		p.high.servers = max(p.high.servers, len(d.Cloud.Servers()))
	})
	return p
}

func (h *highs) see(now sizes) {
	sum := 0
	for name, n := range now {
		h.each[name] = max(h.each[name], n)
		sum += n
	}
	h.sum = max(h.sum, sum)
}

// highest ends the watch and returns the largest numbers seen.
func (p *peak) highest() highs {
	p.stop()
	return p.high
}
