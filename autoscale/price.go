package autoscale

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/proto"
)

// PricingNodePrice and PricingPodPrice are called only by an autoscaler with the price expander
// (CA-C106, C107).
func (s *service) PricingNodePrice(_ context.Context, r *proto.PricingNodePriceRequest) (*proto.PricingNodePriceResponse, error) {
	price, err := s.groups.NodePrice(node(r.GetNode()), when(r.GetStartTimestamp(), r.GetStartTime()), when(r.GetEndTimestamp(), r.GetEndTime()))
	if err != nil {
		return nil, statusOf(err)
	}
	return &proto.PricingNodePriceResponse{Price: price}, nil
}

// PricingPodPrice reads the pod from the field that the client's release fills.
func (s *service) PricingPodPrice(_ context.Context, r *proto.PricingPodPriceRequest) (*proto.PricingPodPriceResponse, error) {
	raw := r.GetPodBytes()
	if len(raw) == 0 {
		raw = r.GetPod()
	}
	pod := &corev1.Pod{}
	if err := pod.Unmarshal(raw); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "reading the pod: %v", err)
	}
	price, err := s.groups.PodPrice(pod, when(r.GetStartTimestamp(), r.GetStartTime()), when(r.GetEndTimestamp(), r.GetEndTime()))
	if err != nil {
		return nil, statusOf(err)
	}
	return &proto.PricingPodPriceResponse{Price: price}, nil
}

// when returns the time newer if it is set, or else the time older; zero when neither is set.
func when(newer, older *timestamppb.Timestamp) time.Time {
	switch {
	case newer != nil:
		return newer.AsTime()
	case older != nil:
		return older.AsTime()
	}
	return time.Time{}
}
