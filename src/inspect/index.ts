export { type InspectOptions, inspectHandler } from './inspect-handler.ts';
export type {
  Comparison,
  InspectInfo,
  RecordLine,
  ReplayReport,
  RowsEvent,
  ShownHead,
  ShownQuestion,
  ShownRow,
  TaskDetail,
  TaskNote,
  TaskPage,
  TreeNode,
  UsageRow,
} from './wire.ts';
