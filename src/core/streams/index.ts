// What every room is composed of: operators, subscribers and the cancellation tree. Other rooms import from here only.
export { AbortScope } from './abort-scope.ts';
export { DirectSubscriber } from './direct-subscriber.ts';
export { handOver } from './hand-over.ts';
export { operate } from './operate.ts';
