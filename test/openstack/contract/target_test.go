package contract

import (
	"testing"
	"time"

	openstackclient "github.com/drover-project/drover/machines/openstack/client"
)

// target is a cloud that the suite runs against. Its fields name existing resources.
type target struct {
	// credentials are the user and password of a project member.
	credentials openstackclient.Credentials
	// reader is a user who may only read in the project. It is empty when there is no such user.
	reader openstackclient.Credentials
	// other is a user of another project, which has the networks otherNet and sharedNet and shares the second with the user's project.
	// admin is an administrator in a project of its own, which owns pool. All are empty when there are none.
	other, admin        openstackclient.Credentials
	otherNet, sharedNet string
	// faulty holds credentials for the same project, through a proxy that can make calls fail.
	faulty openstackclient.Credentials

	flavor, impossible string
	// diskless is a flavor with disk 0. It is empty when there is none.
	diskless              string
	image                 string
	network, subnet, pool string
	group, keyPair, zone  string
	// volumeType is the name of a volume type. It is empty when the cloud has no volumes.
	volumeType string
	// unrouted is a network with one free address and without a route to pool, the network of the floating IPs.
	// nearlyEmpty is a pool with one address.
	unrouted, nearlyEmpty string

	// machines is the number of Machines for which the driver works concurrently.
	machines int

	// misfortune returns an object that causes faults in this cloud. When it is nil, the suite skips the tests that need
	// faults.
	misfortune func(t *testing.T) misfortune
	// pace is the interval at which a condition is checked. patience is how long a condition may take to become true.
	pace, patience time.Duration
}

// misfortune causes faults as an operator of the cloud could. The faults end with the test.
type misfortune interface {
	// limit sets a quota of the project to n. The argument what names the quota as its service does: instances, cores,
	// server_group_members, port, floatingip, volumes, gigabytes.
	limit(t *testing.T, what string, n int)
	// disable disables all hosts in a zone; an empty zone means all zones.
	disable(t *testing.T, zone string)
	// fail puts a server into ERROR.
	fail(t *testing.T, server string)
	// answer makes calls through target.faulty fail.
	answer(t *testing.T, f failure)
	// networkDown stops Neutron until the returned function is called.
	networkDown(t *testing.T) (up func())
	// calls returns the methods and paths of the calls through target.faulty since the previous call of this function.
	calls(t *testing.T) []string
}

// failure describes which calls fail, and how.
type failure struct {
	service, method, path string
	times                 int
	// status is the status that the call is answered with, without being carried out. 0 means that the call is carried out
	// and its response is lost.
	status, retryAfter int
}

// need is what a test requires of the cloud.
type need int

const (
	nothing need = iota
	operator
	volumes
	operatorAndVolumes
	aReader
	// otherProjects requires a user of another project, its networks, and an administrator.
	otherProjects
	// aDisklessFlavor requires a flavor with disk 0.
	aDisklessFlavor
	// aPlayground requires networks whose addresses may all be used.
	aPlayground
	// aMinute requires one or two minutes, because the driver waits until no call is in flight.
	aMinute
	// aQuietCloud requires that no other test runs at the same time, because the test compares durations.
	aQuietCloud
)

// missing returns what the target lacks for a test, or an empty text.
func (tg *target) missing(n need) string {
	switch {
	case (n == operator || n == operatorAndVolumes) && tg.misfortune == nil:
		return "needs the runner"
	case (n == volumes || n == operatorAndVolumes) && tg.volumeType == "":
		return "needs volumes"
	case n == aReader && tg.reader.Username == "":
		return "needs a user who may only read"
	case n == otherProjects && (tg.other.Username == "" || tg.admin.Username == ""):
		return "needs another project and an administrator"
	case n == aDisklessFlavor && tg.diskless == "":
		return "needs a flavor without a disk"
	case n == aPlayground && tg.unrouted == "":
		return "needs the runner's networks"
	case n == aMinute && tg.patience < time.Minute:
		return "takes more than a minute; machines/openstack holds it in virtual time"
	}
	return ""
}
