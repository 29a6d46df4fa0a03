package autoscale

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/nodegroup"
)

var statusCodes = map[nodegroup.Kind]codes.Code{
	nodegroup.InvalidArgument:    codes.InvalidArgument,
	nodegroup.NotFound:           codes.NotFound,
	nodegroup.FailedPrecondition: codes.FailedPrecondition,
	nodegroup.ResourceExhausted:  codes.ResourceExhausted,
	nodegroup.Unavailable:        codes.Unavailable,
	nodegroup.Unimplemented:      codes.Unimplemented,
}

// statusOf gives an error of package nodegroup the status code of its kind. Anything else is Internal.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	if code, ok := statusCodes[nodegroup.KindOf(err)]; ok {
		return status.Error(code, err.Error())
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	}
	return status.Error(codes.Internal, err.Error())
}
