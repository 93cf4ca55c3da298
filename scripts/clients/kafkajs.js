// usage: kafkajs.js BROKERS COUNT TOPIC...
//
// Reads COUNT records from the beginning of the topics with kafkajs, and prints their keys and values.

const { randomUUID } = require('node:crypto')
const { Kafka, logLevel } = require('kafkajs')

const [brokers, count, ...topics] = process.argv.slice(2)
const kafka = new Kafka({ brokers: brokers.split(','), logLevel: logLevel.ERROR })
const consumer = kafka.consumer({ groupId: randomUUID(), maxWaitTimeInMs: 500 })
let left = Number(count)

consumer.on(consumer.events.CRASH, ({ payload }) => {
  console.error(payload.error)
  process.exit(1)
})

async function main() {
  await consumer.connect()
  await consumer.subscribe({ topics, fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ message }) => {
      if (left === 0) return
      console.log(`${message.key ?? 'NULL'}\t${message.value ?? 'NULL'}`)
      left -= 1
      if (left === 0) setImmediate(() => consumer.disconnect().then(() => process.exit(0)))
    },
  })
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
