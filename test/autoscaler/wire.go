package autoscaler

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/drover-project/drover/proto"
)

// wireOptions are the defaults that a request for options carries, as clients since 1.35 send them.
func wireOptions(s Settings) *proto.NodeGroupAutoscalingOptions {
	return &proto.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold:    s.Threshold,
		ScaleDownGpuUtilizationThreshold: s.Threshold,
		ScaleDownUnneededDuration:        durationpb.New(s.UnneededTime),
		ScaleDownUnreadyDuration:         durationpb.New(s.UnreadyTime),
		MaxNodeProvisionDuration:         durationpb.New(s.ProvisionTime),
	}
}
