// Package sim runs the production engine in a simulated world: virtual nodes with clocks of their own, a faulty
// store, a simulated Kafka, and a plan of faults. One seed gives one trace, to the byte.
package sim
