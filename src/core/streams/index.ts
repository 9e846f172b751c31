// What every room is composed of: operators, subscribers and the cancellation tree. Other rooms import from here only.
export { type AbortListener, AbortScope } from './abort-scope.ts';
export {
  DirectSubscriber,
  type FusibleOperator,
  fuse,
  operate,
  type Sink,
  Stage,
  staged,
  switchOnce,
} from './operate.ts';
