package handover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Holder returns the identity under which drover holds machine-controller's lease. All replicas of one installation share it: drover's own
// lease decides which replica leads, and the replica that holds drover's lease may take over machine-controller's lease from another
// replica immediately.
func Holder(namespace string) string { return holderPrefix + namespace }

// holderPrefix begins the identity of every drover that holds machine-controller's lease.
const holderPrefix = "drover/"

// NamespaceOf returns the namespace of the drover that holds machine-controller's lease. holder is the identity in the lease.
// isDrover is false when that identity does not belong to a drover.
func NamespaceOf(holder string) (namespace string, isDrover bool) {
	return strings.CutPrefix(holder, holderPrefix)
}

// defaultSeconds is the duration of a lease that does not specify one. machine-controller sets the same duration.
const defaultSeconds = 15

// LockOptions configure a [Lock].
type LockOptions struct {
	// Own is the lock of drover's own lease.
	Own resourcelock.Interface
	// Other is the lock of machine-controller's lease.
	Other resourcelock.Interface
	// Holder is the identity under which drover holds machine-controller's lease.
	Holder string
	// Seen is called after each read of machine-controller's lease: with the record of the lease while a program other than drover holds it,
	// else with nil. Seen must not block. It may be nil.
	Seen func(other *resourcelock.LeaderElectionRecord)
}

// Lock is the lock of a leader election whose winner holds two leases: drover's own lease, and machine-controller's, called the other
// lease. It implements [resourcelock.Interface].
//
// While another program holds the other lease, Get returns that program's record. The elector then waits for that program as it waits for
// another replica: until neither of the two leases has changed for the longer of their durations. The other lease is always written before
// drover's own, so a process that leads holds both. When drover stops, it does not release the other lease but leaves it to expire, so that
// another replica of drover can take over before machine-controller does.
//
// An elector makes its calls one after the other, so a Lock has no lock of its own.
type Lock struct {
	LockOptions
	// ownMissing is true when the last read found no lease of drover, otherMissing when it found no lease of machine-controller. A missing
	// lease is created instead of updated.
	ownMissing, otherMissing bool
	// other is the record of machine-controller's lease as last read or written.
	other resourcelock.LeaderElectionRecord
}

var _ resourcelock.Interface = (*Lock)(nil)

// NewLock returns a Lock. It makes no API call.
func NewLock(o LockOptions) *Lock {
	if o.Seen == nil {
		o.Seen = func(*resourcelock.LeaderElectionRecord) {}
	}
	return &Lock{LockOptions: o}
}

// Get returns the record of drover's own lease, unless another program holds machine-controller's lease. In that case it returns that
// program's record, with the renew time of drover's own lease, which shows when a drover last led. The raw bytes are then those of both
// leases, so that the elector notices a change of either lease. This matters because another drover, for example one of an older version,
// may lead with drover's own lease alone: this process may lead only when neither lease changes any more.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	own, ownRaw, ownErr := l.Own.Get(ctx)
	if ownErr != nil && !apierrors.IsNotFound(ownErr) {
		return nil, nil, ownErr
	}
	other, otherRaw, err := l.Other.Get(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("reading machine-controller's lease %s: %w", l.Other.Describe(), err)
	}
	l.ownMissing, l.otherMissing = ownErr != nil, err != nil
	l.other = resourcelock.LeaderElectionRecord{}
	if err == nil {
		l.other = *other
	}
	if err == nil && other.HolderIdentity != "" && other.HolderIdentity != l.Holder {
		l.Seen(other)
		shown := *other
		if shown.LeaseDurationSeconds <= 0 {
			shown.LeaseDurationSeconds = defaultSeconds
		}
		shown.RenewTime = metav1.Time{}
		if ownErr == nil {
			shown.RenewTime = own.RenewTime
			shown.LeaseDurationSeconds = max(shown.LeaseDurationSeconds, own.LeaseDurationSeconds)
			otherRaw = append(slices.Clone(otherRaw), ownRaw...)
		}
		return &shown, otherRaw, nil
	}
	l.Seen(nil)
	return own, ownRaw, ownErr
}

// Create acquires both leases when drover's own lease does not exist.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.takeOther(ctx, record); err != nil {
		return err
	}
	return l.Own.Create(ctx, record)
}

// Update acquires or renews both leases. A record without a holder releases drover's own lease.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		return l.Own.Update(ctx, record)
	}
	if err := l.takeOther(ctx, record); err != nil {
		return err
	}
	missing := l.ownMissing
	l.ownMissing = false
	if missing {
		return l.Own.Create(ctx, record)
	}
	return l.Own.Update(ctx, record)
}

// takeOther writes machine-controller's lease, on condition that this lease has not changed since it was last read or written.
func (l *Lock) takeOther(ctx context.Context, own resourcelock.LeaderElectionRecord) error {
	before, missing := l.other, l.otherMissing
	record := resourcelock.LeaderElectionRecord{
		HolderIdentity: l.Holder, LeaseDurationSeconds: own.LeaseDurationSeconds, AcquireTime: before.AcquireTime, RenewTime: own.RenewTime,
		LeaderTransitions: before.LeaderTransitions,
	}
	if before.HolderIdentity != l.Holder {
		record.AcquireTime = own.RenewTime
	}
	if before.HolderIdentity != l.Holder && before.HolderIdentity != "" {
		record.LeaderTransitions++
	}
	write := l.Other.Update
	if missing {
		write = l.Other.Create
	}
	if err := write(ctx, record); err != nil {
		return fmt.Errorf("acquiring lease %s, so that machine-controller stays idle: %w", l.Other.Describe(), err)
	}
	l.other, l.otherMissing = record, false
	return nil
}

// RecordEvent records an Event about drover's own lease.
func (l *Lock) RecordEvent(text string) { l.Own.RecordEvent(text) }

// Identity returns the identity under which drover's own lease is held.
func (l *Lock) Identity() string { return l.Own.Identity() }

// Describe returns the name of drover's own lease.
func (l *Lock) Describe() string { return l.Own.Describe() }

// ParseLease parses a text of the form namespace/name. named is false for the empty text, which names no lease.
func ParseLease(text string) (namespace, name string, named bool, err error) {
	if text == "" {
		return "", "", false, nil
	}
	namespace, name, _ = strings.Cut(text, "/")
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", false, errors.New("is not of the form namespace/name")
	}
	return namespace, name, true, nil
}
