"""usage: confluent.py BROKERS COUNT TOPIC...

Reads COUNT records from the beginning of the topics with confluent-kafka, and prints their keys and values.
"""

import sys
import uuid

from confluent_kafka import Consumer, KafkaException

brokers, count, *topics = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": brokers, "group.id": str(uuid.uuid4()), "auto.offset.reset": "earliest"})
consumer.subscribe(topics)
left = int(count)
while left > 0:
    record = consumer.poll(1)
    if record is None:
        continue
    if record.error():
        raise KafkaException(record.error())
    print((record.key() or b"NULL").decode(), (record.value() or b"NULL").decode(), sep="\t")
    left -= 1
consumer.close()
