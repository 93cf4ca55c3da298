"""usage: kafkapython.py BROKERS COUNT TOPIC...

Reads COUNT records from the beginning of the topics with kafka-python, and prints their keys and values.
"""

import sys
import uuid

from kafka import KafkaConsumer

brokers, count, *topics = sys.argv[1:]
consumer = KafkaConsumer(*topics, bootstrap_servers=brokers, group_id=str(uuid.uuid4()), auto_offset_reset="earliest")
for _, record in zip(range(int(count)), consumer):
    print((record.key or b"NULL").decode(), (record.value or b"NULL").decode(), sep="\t")
consumer.close()
