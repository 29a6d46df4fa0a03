package contract

import (
	"testing"
	"time"

	openstackclient "github.com/drover-project/drover/machines/openstack/client"
)

// target is a cloud that the suite runs against. Its names are those of existing resources.
type target struct {
	// credentials are those of a member of a project, by user and password.
	credentials openstackclient.Credentials
	// reader may only read in the project; it is empty when no such user exists.
	reader openstackclient.Credentials
	// faulty reaches the same project through a proxy that can make calls fail.
	faulty openstackclient.Credentials

	flavor, impossible    string
	image                 string
	network, subnet, pool string
	group, keyPair, zone  string
	// volumeType is empty where there are no volumes.
	volumeType string
	// unrouted is a network with one free address and without a way to the pool; nearlyEmpty is a pool of one address.
	unrouted, nearlyEmpty string

	// machines is how many the driver makes at a time.
	machines int

	// misfortune returns what causes faults; nil when the cloud does not support that. Rows that need it are then left out.
	misfortune func(t *testing.T) misfortune
	// pace is the time between two checks of a condition, patience how long it may take.
	pace, patience time.Duration
}

// misfortune causes faults as an operator of the cloud could. They end with the test.
type misfortune interface {
	// limit is a quota of the project, in the words of its service: instances, cores, server_group_members, port,
	// floatingip, volumes, gigabytes.
	limit(t *testing.T, what string, n int)
	// disable takes all hosts of a zone out of use; empty: all zones.
	disable(t *testing.T, zone string)
	// fail puts a server into ERROR.
	fail(t *testing.T, server string)
	// answer makes calls fail for those who come through target.faulty.
	answer(t *testing.T, f failure)
	// networkDown stops Neutron until the function is called that it returns.
	networkDown(t *testing.T) (up func())
	// calls returns method and path of the calls through target.faulty since the last call of this function.
	calls(t *testing.T) []string
}

// failure describes which calls fail, and how.
type failure struct {
	service, method, path string
	times                 int
	// status is answered without carrying out the call; 0 means that the call is carried out and its response is lost.
	status, retryAfter int
}

// need is what a row requires of the cloud.
type need int

const (
	nothing need = iota
	operator
	volumes
	operatorAndVolumes
	aReader
	// aPlayground requires networks whose addresses may be used up.
	aPlayground
	// aMinute requires a minute or two, because the driver waits until no call is in flight.
	aMinute
	// aQuietCloud requires that no other row runs at the same time, because durations are compared.
	aQuietCloud
)

// missing returns what the target lacks for a row; empty if nothing.
func (tg *target) missing(n need) string {
	switch {
	case (n == operator || n == operatorAndVolumes) && tg.misfortune == nil:
		return "needs the runner"
	case (n == volumes || n == operatorAndVolumes) && tg.volumeType == "":
		return "needs volumes"
	case n == aReader && tg.reader.Username == "":
		return "needs a user who may only read"
	case n == aPlayground && tg.unrouted == "":
		return "needs the runner's networks"
	case n == aMinute && tg.patience < time.Minute:
		return "takes more than a minute; machines/openstack holds it in virtual time"
	}
	return ""
}
