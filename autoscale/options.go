package autoscale

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/proto"
)

// errNoOptions is the answer for a group without options of its own. It is made only once, because an autoscaler asks for
// options four times for each node.
var errNoOptions = status.Error(codes.Unimplemented, "The group has no options of its own: the autoscaler's flags apply")

// NodeGroupGetOptions returns the client's options, overridden by the group's own. The answer sets every option, because the
// client uses zero for a missing option. It sets both the fields of older releases and those of newer ones. For a group without
// options of its own NodeGroupGetOptions returns an error, so that the client uses its flags: with an answer, a client up to
// release 1.37 would use zero for the startup time, because its protocol has no field for it (CA-C90 … C93).
func (s *service) NodeGroupGetOptions(_ context.Context, r *proto.NodeGroupAutoscalingOptionsRequest) (*proto.NodeGroupAutoscalingOptionsResponse, error) {
	own, ok := s.groups.Settings(r.GetId(), settings(r.GetDefaults()))
	if !ok {
		return nil, errNoOptions
	}
	return &proto.NodeGroupAutoscalingOptionsResponse{NodeGroupAutoscalingOptions: options(own, r.GetDefaults())}, nil
}

// settings reads the client's options, from the newer fields where these are set.
func settings(o *proto.NodeGroupAutoscalingOptions) model.Settings {
	return model.Settings{
		UtilizationThreshold:    o.GetScaleDownUtilizationThreshold(),
		GPUUtilizationThreshold: o.GetScaleDownGpuUtilizationThreshold(),
		UnneededTime:            either(o.GetScaleDownUnneededDuration(), o.GetScaleDownUnneededTime()),
		UnreadyTime:             either(o.GetScaleDownUnreadyDuration(), o.GetScaleDownUnreadyTime()),
		ProvisionTime:           either(o.GetMaxNodeProvisionDuration(), o.GetMaxNodeProvisionTime()),
		ZeroOrMax:               o.GetZeroOrMaxNodeScaling(),
		IgnoreDaemonSets:        o.GetIgnoreDaemonSetsUtilization(),
	}
}

func either(newer *durationpb.Duration, older *proto.LegacyDuration) time.Duration {
	if newer != nil {
		return newer.AsDuration()
	}
	return time.Duration(older.GetDuration())
}

// options returns the options in the fields of older and of newer releases. Options that drover does not set have the values
// that the client sent.
func options(s model.Settings, asked *proto.NodeGroupAutoscalingOptions) *proto.NodeGroupAutoscalingOptions {
	return &proto.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold:    s.UtilizationThreshold,
		ScaleDownGpuUtilizationThreshold: s.GPUUtilizationThreshold,
		ScaleDownUnneededTime:            &proto.LegacyDuration{Duration: int64(s.UnneededTime)},
		ScaleDownUnreadyTime:             &proto.LegacyDuration{Duration: int64(s.UnreadyTime)},
		MaxNodeProvisionTime:             &proto.LegacyDuration{Duration: int64(s.ProvisionTime)},
		ScaleDownUnneededDuration:        durationpb.New(s.UnneededTime),
		ScaleDownUnreadyDuration:         durationpb.New(s.UnreadyTime),
		MaxNodeProvisionDuration:         durationpb.New(s.ProvisionTime),
		ZeroOrMaxNodeScaling:             s.ZeroOrMax,
		IgnoreDaemonSetsUtilization:      s.IgnoreDaemonSets,
		MaxNodeStartupDuration:           asked.GetMaxNodeStartupDuration(),
		AllowNonAtomicScaleUpToMax:       asked.GetAllowNonAtomicScaleUpToMax(),
	}
}
