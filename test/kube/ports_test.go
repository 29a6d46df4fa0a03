package kube

import (
	"net"
	"strconv"
	"testing"
)

func TestAFreePortIsNeitherChosenTwiceNorTakenByOutgoingConnections(t *testing.T) {
	chosen := map[string]bool{}
	for range 200 {
		address, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		_, text, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.Atoi(text)
		if err != nil || port < firstPort || port >= 32768 {
			t.Errorf("%s: systems take ports from 32768 on for outgoing connections (%v)", address, err)
		}
		if chosen[address] {
			t.Errorf("%s is chosen twice", address)
		}
		chosen[address] = true
	}
}

func TestAPortInUseIsNotChosen(t *testing.T) {
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	drawn.Add(-1)
	if again, err := FreeAddress(); err != nil || again == address {
		t.Errorf("got %s, %v", again, err)
	}
}
