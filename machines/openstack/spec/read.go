package spec

import (
	"maps"
	"strconv"
	"strings"
	"unicode/utf8"
)

// readSpec reads the fields other than credentials. It does not check what only the cloud can answer. reserved are keys that tags
// may not set. Its error names everything that is wrong.
func readSpec(ls layers, reserved []string) (*Spec, error) {
	ls.origin = newProvenance()
	s := &Spec{source: ls.list[0].source, origin: ls.origin}
	var errs []error
	text := func(names ...string) found {
		got, err := ls.text(names...)
		errs = append(errs, err)
		return got
	}
	required := func(name string) string {
		before := len(errs)
		got := text(name)
		if errs[before] == nil && !got.given() {
			errs = append(errs, invalid(s.source+"."+name, "is missing; set the %s of the servers", name))
		}
		return got.text
	}
	flag := func(name string) bool {
		on, _ := strconv.ParseBool(text(name).text)
		return on
	}
	s.Flavor, s.Image = required("flavor"), required("image")
	s.AvailabilityZone, s.Subnet, s.FloatingIPPool = text("availabilityZone").text, text("subnet").text, text("floatingIpPool").text
	s.RootDiskVolumeType, s.KeyName, s.ComputeAPIVersion = text("rootDiskVolumeType").text, text("keyName").text, text("computeAPIVersion").text
	group := text("serverGroupID", "serverGroup")
	s.ServerGroup, s.ServerGroupField = group.text, group.field
	var err error
	s.SecurityGroups, _, err = ls.texts("securityGroups")
	errs = append(errs, err)
	s.Networks, err = readNetworks(text("network"), ls)
	errs = append(errs, err)
	s.ConfigDrive, s.DisablePortSecurity = flag("configDrive"), flag("disablePortSecurity")
	s.RootDiskSizeGB, _ = strconv.Atoi(text("rootDiskSizeGB").text)
	errs = append(errs, s.readTags(ls, reserved))
	s.dropIdle(ls)
	if err := Together(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// readNetworks returns the networks. network and networks are one field: both are read from the highest layer that has either.
func readNetworks(first found, ls layers) (all []string, err error) {
	more, from, err := ls.texts("networks")
	if first.given() && (from < 0 || first.from <= from) {
		all = append(all, first.text)
	}
	if from >= 0 && (!first.given() || from <= first.from) {
		all = append(all, more...)
	}
	return unique(all), err
}

// dropIdle clears each field that has no effect because of another field, and adds a warning.
func (s *Spec) dropIdle(ls layers) {
	if s.RootDiskVolumeType != "" && s.RootDiskSizeGB == 0 {
		ls.note(s.source + ".rootDiskVolumeType: has no effect without rootDiskSizeGB; set both or none")
		s.RootDiskVolumeType = ""
	}
	if s.DisablePortSecurity && len(s.SecurityGroups) > 0 {
		ls.note(s.source + ".securityGroups: has no effect beside disablePortSecurity; keep one of them")
		s.SecurityGroups = nil
	}
}

// readTags reads a map (server metadata) or a list. In a list, an item k=v is metadata, and any other item is a Nova tag. It
// returns an error for a reserved key.
func (s *Spec) readTags(ls layers, reserved []string) error {
	for i, l := range ls.list {
		v := ls.read(i, "tags")
		if v.err != nil {
			return v.err
		}
		s.Metadata = maps.Clone(v.pairs)
		for _, tag := range v.texts {
			key, val, pair := strings.Cut(tag.text, "=")
			switch {
			case !pair:
				s.Tags = append(s.Tags, tag.text)
			case s.Metadata == nil:
				s.Metadata = map[string]string{key: val}
			default:
				s.Metadata[key] = val
			}
		}
		for _, key := range reserved {
			if _, taken := s.Metadata[key]; taken {
				return invalid(l.where("tags"), "the key %s is reserved for drover; remove it", key)
			}
		}
		if len(s.Metadata)+len(s.Tags) > 0 {
			return s.checkTags(ls.lenient, l.where("tags"))
		}
	}
	return nil
}

// Limits of a server's tags. Each list of the servers of a project repeats all of them. longestMetadata is Nova's limit, in characters,
// for a key and for a value of metadata.
const mostTags, mostTagBytes, longestMetadata = 32, 4 << 10, 255

// checkTags returns an error when there are too many tags. It accepts those of a Machine that has, or had, a server.
func (s *Spec) checkTags(lenient bool, where string) error {
	count, bytes, longest := len(s.Metadata)+len(s.Tags), len(strings.Join(s.Tags, "")), 0
	for key, text := range s.Metadata {
		bytes += len(key) + len(text)
		longest = max(longest, utf8.RuneCountInString(key), utf8.RuneCountInString(text))
	}
	switch {
	case lenient:
	case count > mostTags || bytes > mostTagBytes:
		return invalid(where, "has %d tags of %d bytes together; use at most %d tags of %d bytes", count, bytes, mostTags, mostTagBytes)
	case longest > longestMetadata:
		return invalid(where, "has a key or value of %d characters; use at most %d", longest, longestMetadata)
	}
	return nil
}
