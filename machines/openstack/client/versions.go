package client

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
)

// Version is a row of the table of compute microversions: the version that a call wants, the least version without which the call
// fails, and the feature (lost) that the call lacks below the wanted version. Versions have the form 2.x; empty means the base
// version 2.1, for which no version header is sent.
type Version struct {
	wanted, least string
	lost          string
}

// The table of microversions. A call without a row uses the base version.
var (
	VersionServers      = Version{wanted: "2.3", lost: "which volume goes with its server; boot volumes are not recorded (Kilo)"}
	VersionFlavors      = Version{wanted: "2.61", lost: "extra specs of flavors (Rocky)"}
	VersionTags         = Version{wanted: "2.52", least: "2.52", lost: "Nova tags at the creation of a server (Pike)"}
	VersionVolumeType   = Version{wanted: "2.67", least: "2.67", lost: "rootDiskVolumeType (Stein)"}
	VersionServerGroups = Version{wanted: "2.64", least: "2.15", lost: "soft-anti-affinity (Mitaka)"}
)

// CreateFeatures are the features of a create request that need a microversion.
type CreateFeatures struct {
	Tags, VolumeType bool
	// Raised is the least microversion that the provider spec asks for (computeAPIVersion); empty means any.
	Raised string
}

// CreateVersion returns the version for the create request of a server.
func CreateVersion(f CreateFeatures) Version {
	v := Version{}
	if f.Tags {
		v = VersionTags
	}
	if f.VolumeType {
		v = VersionVolumeType
	}
	if minor(f.Raised) > minor(v.wanted) {
		v = Version{wanted: f.Raised, least: f.Raised, lost: "computeAPIVersion"}
	}
	return v
}

// WithoutLoss reports whether a microversion supports every feature that the call wants.
func (v Version) WithoutLoss(microversion string) bool { return minor(microversion) >= minor(v.wanted) }

// settle returns the version to send to an endpoint: the wanted version, or the least version when the endpoint does not support
// the wanted one. newest is the newest version that the endpoint supports. settle returns an Invalid error when the endpoint does
// not even support the least version.
func (v Version) settle(newest string) (string, error) {
	switch {
	case minor(v.wanted) <= minor(newest):
		return v.wanted, nil
	case minor(v.least) <= minor(newest):
		return v.least, nil
	}
	if newest == "" {
		return "", fault.New(fault.Invalid, fault.CodeInvalidSpec, "the cloud's compute service shows no microversions (its version document cannot be read); %s needs %s", v.lost, v.least)
	}
	return "", fault.New(fault.Invalid, fault.CodeInvalidSpec, "the cloud's compute service supports microversions up to %s only; %s needs %s", newest, v.lost, v.least)
}

// minor returns the number behind the point of a version of the form 2.x; 0 for an empty version.
func minor(version string) int {
	_, after, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(after)
	if err != nil {
		return 0
	}
	return n
}

// hiddenFor is the time until drover asks again for a version document that it could not read. The answer may have come from a proxy. It
// is also how long calls wait for a document that may come soon, before they do without it.
const hiddenFor = time.Minute

// versions caches the newest microversion of each compute endpoint, for all credentials.
type versions struct {
	clock  clock.PassiveClock
	flight singleflight.Group
	mu     sync.Mutex
	newest map[string]shown
}

// shown is what an endpoint answered when drover asked for its newest microversion. newest is empty when the answer has none. at is the
// time of the answer, and lastUsed is when the entry was last used. failing is since when the answers have been failures that may pass (see
// mayPass); zero when the last answer was another one.
type shown struct {
	newest                string
	at, lastUsed, failing time.Time
}

func newVersions(c clock.PassiveClock) *versions {
	return &versions{clock: c, newest: map[string]shown{}}
}

func (v *versions) known(endpoint string) (string, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.newest[endpoint]
	now := v.clock.Now()
	if !ok || s.newest == "" && now.Sub(s.at) >= hiddenFor {
		return "", false
	}
	s.lastUsed = now
	v.newest[endpoint] = s
	return s.newest, true
}

// remember records the result of a request for the version document. It returns err while the call should wait for the document: err is a
// failure that may end soon, and the document has not failed for hiddenFor yet. Otherwise it returns nil, and the call uses newest.
func (v *versions) remember(endpoint, newest string, err error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.clock.Now()
	s := shown{newest: newest, at: now, lastUsed: now}
	if err != nil {
		s.failing = cmp.Or(v.newest[endpoint].failing, now)
	}
	if err != nil && now.Sub(s.failing) < hiddenFor {
		// The next call asks again.
		s.at = time.Time{}
	} else {
		err = nil
	}
	v.newest[endpoint] = s
	return err
}

// sweep removes the entries that were last used before the given time.
func (v *versions) sweep(before time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.newest, func(_ string, s shown) bool { return s.lastUsed.Before(before) })
}

// lookUp returns the newest microversion of an endpoint, and asks each endpoint only once. An endpoint whose version document cannot be
// read is treated as if it supported only the base version, and is asked again after hiddenFor: all other calls may work. Only an answer
// that may become another one soon is an error, and only for hiddenFor.
func (v *versions) lookUp(ctx context.Context, client *gophercloud.ServiceClient) (string, error) {
	if newest, ok := v.known(client.Endpoint); ok {
		return newest, nil
	}
	got, err, _ := v.flight.Do(client.Endpoint, func() (any, error) {
		newest, err := newestOf(ctx, client)
		if ctx.Err() != nil {
			return "", err
		}
		return newest, v.remember(client.Endpoint, newest, err)
	})
	newest, _ := got.(string)
	return newest, err
}

// versioned matches a compute URL up to its version, because some catalogs add the project to it.
var versioned = regexp.MustCompile(`^.*/v2(\.\d+)?/`)

// newestOf reads the newest microversion from the version document of an endpoint; empty when the answer has none. It returns an error
// only when the same request may soon have another answer.
func newestOf(ctx context.Context, client *gophercloud.ServiceClient) (string, error) {
	address := client.Endpoint
	if root := versioned.FindString(address); root != "" {
		address = root
	}
	var body struct {
		Version struct {
			Newest string `json:"version"`
		} `json:"version"`
	}
	if _, err := client.Get(ctx, address, &body, nil); err != nil {
		return "", mayPass(err)
	}
	return body.Version.Newest, nil
}

// passingStatuses are the statuses with which an overloaded service, or a proxy before a service that restarts, answers for a while.
var passingStatuses = []int{
	http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// mayPass returns err when the request may soon have another answer: there was none, the token could not be renewed, drover did not
// send the request yet, or the status is one of passingStatuses. Otherwise it returns nil.
func mayPass(err error) error {
	var again *gophercloud.ErrUnableToReauthenticate
	var known *fault.Error
	var lost *url.Error
	soon := slices.ContainsFunc(passingStatuses, func(status int) bool { return gophercloud.ResponseCodeIs(err, status) })
	switch {
	case errors.As(err, &again):
		soon = true
	case errors.As(err, &known):
		soon = known.Class == fault.RateLimited
	case errors.As(err, &lost):
		soon = true
	}
	if soon {
		return err
	}
	return nil
}
