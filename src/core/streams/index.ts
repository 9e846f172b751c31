// What every room is composed of: operators, subscribers and the cancellation tree. Other rooms import from here only.
export { AbortScope } from './abort-scope.ts';
export { DirectSubscriber, operate, switchOnce } from './operate.ts';
