//go:build cluster

package e2e

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// attacker is who makes an attempt.
type attacker string

const (
	// theAuthor has every right on drover's kinds in one namespace, and no other right.
	theAuthor attacker = "author"
	// aKubelet has the certificate of the Node of one of the author's Machines.
	aKubelet attacker = "kubelet"
	// aCloud is an author with a cloud of his own, at an endpoint that the operator has allowed unless the attempt says else.
	aCloud attacker = "cloud"
)

// stop is what stops an attempt.
type stop string

const (
	// policies: the admission policies of drover refuse the write. Without them it is stored, and drover does not obey it.
	policies stop = "admission policies"
	// rights: the API server's authorization refuses, or its NodeRestriction.
	rights stop = "RBAC, Node authorizer"
	// validation: the schema of a kind, or the API server's own validation.
	validation stop = "validation"
	// product: the write is stored, and drover does not obey it.
	product stop = "drover"
)

// attempt is one attack. All are made twice: while the admission policies are in force, and after they were deleted.
type attempt struct {
	by attacker
	// to is what the attacker is after, as the subject of docs/security.md: a verb first.
	to      string
	finding string
	stop    stop
	// target: the attempt needs a Machine of the author's with a Node.
	target bool
	// slow: the cloud of its Machines does not answer, or wants to be left alone. The test does not wait for these Machines.
	slow bool
	try  func(*world, attempt) error
	// shows is a text that the conditions of the attempt's Machine must hold at the end; empty: any.
	shows string
}

// key is a name for the objects of an attempt.
func (a attempt) key() string {
	i := slices.IndexFunc(attempts(), func(o attempt) bool { return o.by == a.by && o.to == a.to })
	return fmt.Sprintf("%s-%02d", a.by, i)
}

// attempts returns all of them.
func attempts() []attempt {
	return slices.Concat(machineAttempts(), groupAttempts(), reachAttempts(), specAttempts(), nodeAttempts(), certificateAttempts(), cloudAttempts(), nodeClaimAttempts(), endpointAttempts())
}

// wrong returns what is wrong with the API server's answer to an attempt; empty when it is as wanted.
func (a attempt) wrong(err error, guarded bool) string {
	switch {
	case a.stop == product, a.stop == policies && !guarded:
		if err != nil {
			return fmt.Sprintf("the API server refused it, so nothing was tried of drover: %v", err)
		}
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
