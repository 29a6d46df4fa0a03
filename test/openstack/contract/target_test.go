package contract

import (
	"testing"
	"time"

	openstackclient "github.com/drover-project/drover/machines/openstack/client"
)

// target is a cloud that the suite runs against. Names are those of things that it holds from the beginning.
type target struct {
	// credentials are a member's of a project, by user and password.
	credentials openstackclient.Credentials
	// reader may only read there; without a user name nobody is known who may.
	reader openstackclient.Credentials
	// faulty leads to the same project through what misfortune.answer makes fail.
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

	// misfortune is nil where nobody can be asked for it; then the rows that need it are listed and left out.
	misfortune func(t *testing.T) misfortune
	// pace is the time between two looks at something that is to change, patience how long it may take.
	pace, patience time.Duration
}

// misfortune is what a cloud's operator can bring about. What a test did is undone when it ends.
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
	// calls gives method and path of what came through target.faulty since it was last asked.
	calls(t *testing.T) []string
}

// failure says which calls fail, and how.
type failure struct {
	service, method, path string
	times                 int
	// status is answered without the call being carried out; 0: the call is carried out and its answer is lost.
	status, retryAfter int
}

// need is what a row cannot do without.
type need int

const (
	nothing need = iota
	operator
	volumes
	operatorAndVolumes
	aReader
	// aPlayground: networks that are there to be emptied.
	aPlayground
	// aMinute: the driver waits on purpose, a minute or two: nothing is in flux, or something may still turn up.
	aMinute
	// aQuietCloud: durations are compared, so no other row runs at the same time.
	aQuietCloud
)

// missing says what the target lacks for a row; empty: nothing.
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
