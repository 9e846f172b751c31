import type { Comparison, TaskDetail } from '../wire.ts';
import { taskPath } from './api.ts';
import { plural, standing } from './format.ts';
import { Json } from './json.tsx';
import { Fault, State, useApi } from './parts.tsx';
import { linkTo } from './place.ts';

interface Sides {
  readonly left: string;
  readonly right: string;
}

/** Two turns side by side, from the first record in which they differ. */
export function Compare({ left, right }: Sides) {
  const { data, error } = useApi<Comparison>(`${taskPath(left)}/compare?with=${encodeURIComponent(right)}`);
  return (
    <main>
      <h1>Compare</h1>
      <Fault error={error} />
      {data && (
        <p class="hint">
          {data.seq === undefined
            ? `Both did the same in ${plural(data.same, 'record')}.`
            : `${plural(data.same, 'record')} alike, then record ${data.seq} differs${data.path === undefined ? '' : ` in ${data.path}`}.`}
        </p>
      )}
      <div class="sides">
        <Side taskId={left} seq={data?.seq} record={data?.left} path={data?.path} />
        <Side taskId={right} seq={data?.seq} record={data?.right} path={data?.path} />
      </div>
    </main>
  );
}

interface SideProps {
  readonly taskId: string;
  readonly seq: number | undefined;
  readonly record: unknown;
  readonly path: string | undefined;
}

function Side({ taskId, seq, record, path }: SideProps) {
  const { data, error } = useApi<TaskDetail>(taskPath(taskId));
  const member = path === undefined ? undefined : memberAt(record, path);
  return (
    <section class="card" aria-label={`Turn ${taskId}`}>
      <Fault error={error} />
      {data && (
        <div class="line">
          <State state={standing(data.summary.state, data.summary.held)} />
          <a href={linkTo(['task', taskId])}>
            <code>{taskId}</code>
          </a>
        </div>
      )}
      {seq !== undefined && record === undefined && <p class="hint">It has no record {seq}.</p>}
      {path !== undefined && record !== undefined && (
        <div class="differs">
          <h2>{path}</h2>
          {member === undefined ? <p class="hint">It has no such member.</p> : <Json value={member} open={2} />}
        </div>
      )}
      {record !== undefined && (
        <>
          <h2>Record {seq}</h2>
          <Json value={record} open={2} />
        </>
      )}
      {data?.answer !== undefined && (
        <>
          <h2>Answer</h2>
          <div class="prose">{data.answer}</div>
        </>
      )}
    </section>
  );
}

/** A member of a member: names of members may have dots themselves, so the longest that fits counts. */
function memberAt(value: unknown, path: string): unknown {
  if (path === '' || typeof value !== 'object' || value === null) return path === '' ? value : undefined;
  if (Object.hasOwn(value, path)) return Reflect.get(value, path);
  for (let dot = path.lastIndexOf('.'); dot > 0; dot = path.lastIndexOf('.', dot - 1)) {
    const name = path.slice(0, dot);
    if (Object.hasOwn(value, name)) return memberAt(Reflect.get(value, name), path.slice(dot + 1));
  }
  return undefined;
}
