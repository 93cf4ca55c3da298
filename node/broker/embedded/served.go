package embedded

import (
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// served returns which kinds of requests the broker serves, and up to which version: what producers, consumers,
// transactions and the tools for topics and groups need. The rest of what kfake knows, such as share groups, access
// lists and quotas, is not announced to clients and is refused: it is of no use here, and one thing more to go wrong.
//
// Java's admin client, with which Kafka's tools and its graphical ones ask, reads lists that kfake leaves null. It
// does without what is not announced: without DescribeTopicPartitions it asks for Metadata, and without the newer
// versions of CreateTopics it is not told the settings of the topic.
func served() *kversion.Versions {
	all, some := kversion.Stable(), new(kversion.Versions)
	for _, kind := range []kmsg.Key{
		kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata, kmsg.ApiVersions, kmsg.FindCoordinator,
		kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.JoinGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.SyncGroup,
		kmsg.ConsumerGroupHeartbeat, kmsg.ConsumerGroupDescribe,
		kmsg.DescribeGroups, kmsg.ListGroups, kmsg.DeleteGroups, kmsg.OffsetDelete, kmsg.OffsetForLeaderEpoch,
		kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.TxnOffsetCommit,
		kmsg.DescribeProducers, kmsg.DescribeTransactions, kmsg.ListTransactions,
		kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.CreatePartitions, kmsg.DeleteRecords,
		kmsg.DescribeConfigs, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs,
		kmsg.DescribeCluster, kmsg.DescribeLogDirs,
	} {
		if version, known := all.LookupMaxKeyVersion(int16(kind)); known {
			some.SetMaxKeyVersion(int16(kind), version)
		}
	}
	// From version 13 on topics go by their UUIDs, and two that do not exist, or are gone, end kfake: it keeps what it
	// answers by UUID, and looks it up by name, which both of them lack.
	some.SetMaxKeyVersion(int16(kmsg.Produce), 12)
	some.SetMaxKeyVersion(int16(kmsg.CreateTopics), 4)
	// From version 5 on the types of groups can be asked for, which Java's admin client writes with a capital: kfake
	// finds no group of such a type.
	some.SetMaxKeyVersion(int16(kmsg.ListGroups), 4)
	return some
}
