package autoscale

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/nodegroup/model"
)

var statusCodes = map[model.Kind]codes.Code{
	model.InvalidArgument:    codes.InvalidArgument,
	model.NotFound:           codes.NotFound,
	model.FailedPrecondition: codes.FailedPrecondition,
	model.ResourceExhausted:  codes.ResourceExhausted,
	model.Unavailable:        codes.Unavailable,
	model.Unimplemented:      codes.Unimplemented,
}

// statusOf converts an error of package nodegroup into a gRPC error. The error's kind determines the status code. An error
// without a kind becomes DeadlineExceeded, Canceled or Internal.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	if code, ok := statusCodes[model.KindOf(err)]; ok {
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
