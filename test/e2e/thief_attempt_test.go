//go:build cluster

package e2e

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// attacker is the kind of attacker that makes an attempt.
type attacker string

const (
	// theAuthor is a user who has every right on drover's kinds in one namespace, and no other right.
	theAuthor attacker = "author"
	// aKubelet is an attacker with the client certificate of the Node of one of the author's Machines.
	aKubelet attacker = "kubelet"
	// aCloud is an author who runs a cloud of his own, at an endpoint that the operator has allowed unless the attempt says otherwise.
	aCloud attacker = "cloud"
	// aCustomer is another customer of the same OpenStack.
	aCustomer attacker = "customer"
	// aStranger is somebody on the pod network, without any credentials.
	aStranger attacker = "stranger"
	// aClient is a client with the autoscaler's certificate for gRPC.
	aClient attacker = "client"
)

// stop is what must stop an attempt.
type stop string

const (
	// policies means that drover's admission policies refuse the write. Without the policies the write is stored, and drover
	// ignores its content.
	policies stop = "admission policies"
	// rights means that the API server's authorization or its NodeRestriction plugin refuses the request.
	rights stop = "RBAC, Node authorizer"
	// validation means that the schema of a kind or the API server's own validation refuses the request.
	validation stop = "validation"
	// product means that drover itself stops the attempt: the API server stores the write, and drover ignores its content.
	product stop = "drover"
	// listeners means that one of drover's own servers refuses the requests.
	listeners stop = "drover's listeners"
)

// attempt is one attack. Every attack is made twice: while the admission policies are in force, and after their
// deletion.
type attempt struct {
	by attacker
	// to is the attacker's goal, in the words of docs/security.md; it begins with a verb.
	to      string
	finding string
	stop    stop
	// target reports whether the attempt needs a Machine of the author's with a Node.
	target bool
	// older reports whether API servers before 1.31 admit the request. Then drover stops the attempt.
	older bool
	// slow reports whether the cloud of the attempt's Machines does not answer, or asks drover to wait. The test does
	// not wait for these Machines.
	slow bool
	try  func(*world, attempt) error
	// shows is a text that the conditions of the attempt's Machine must contain at the end. Empty means any text.
	shows string
	// after is called when drover has processed all attempts. It returns an error that says what the attempt has achieved. It may be nil.
	after func(*world, attempt) error
}

// key returns a name for the objects of an attempt.
func (a attempt) key() string {
	i := slices.IndexFunc(attempts(), func(o attempt) bool { return o.by == a.by && o.to == a.to })
	return fmt.Sprintf("%s-%02d", a.by, i)
}

// attempts returns the attempts of all attackers.
func attempts() []attempt {
	return slices.Concat(machineAttempts(), groupAttempts(), reachAttempts(), specAttempts(), nodeAttempts(), certificateAttempts(), cloudAttempts(), nodeClaimAttempts(), endpointAttempts(),
		labelAttempts(), lureAttempts(), sizeAttempts(), reportAttempts(), answerAttempts(), customerAttempts(), floodAttempts(), strangerAttempts(), clientAttempts())
}

// wrong describes how the API server's answer to an attempt differs from the expected one. It is empty when the answer
// is as expected.
func (a attempt) wrong(err error, guarded bool) string {
	switch {
	case a.stop == listeners:
		if err != nil {
			return err.Error()
		}
		return ""
	case a.stop == product, a.stop == policies && !guarded:
		if err != nil {
			return fmt.Sprintf("the API server refused it, so nothing was tried of drover: %v", err)
		}
		return ""
	case err == nil && a.older:
		return ""
	case err == nil:
		return "the API server admitted it"
	}
	byPolicy := strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
	ok := map[stop]bool{
		policies:   byPolicy,
		rights:     !byPolicy && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)),
		validation: !byPolicy && apierrors.IsInvalid(err),
	}[a.stop]
	if !ok {
		return fmt.Sprintf("it was refused for another reason than %s: %v", a.stop, err)
	}
	return ""
}
