import { useState } from 'preact/hooks';
import type { InspectInfo, ReplayReport, TaskDetail } from '../wire.ts';
import { get, post, taskPath } from './api.ts';
import { Dialog, Fault } from './parts.tsx';
import { goTo } from './place.ts';

interface ActionsProps {
  readonly detail: TaskDetail;
  readonly info: InspectInfo;
  readonly onDone: () => void;
  readonly onReplay: (report: ReplayReport) => void;
}

/** What can be done with a turn in its state. */
export function Actions({ detail, info, onDone, onReplay }: ActionsProps) {
  const [error, setError] = useState<unknown>();
  const { summary, parent, forkedFrom, iteration, below } = detail;
  const { taskId, state, held } = summary;
  const path = taskPath(taskId);
  const isOver = state === 'completed' || state === 'failed' || state === 'canceled' || state === 'rejected';
  const isOwn = info.agentId === summary.agentId && !parent;
  const isRoot = parent === undefined;
  const act = async (name: string, body: object) => {
    const done = await post<{ readonly taskId: string }>(`${path}/${name}`, body);
    if (done.taskId === taskId) onDone();
    else goTo(['task', done.taskId]);
  };
  const tried = (action: () => Promise<void>) => () => void action().then(() => setError(undefined), setError);
  const near = [
    ...(forkedFrom ? [forkedFrom.taskId] : []),
    ...below.filter(({ kind }) => kind !== 'child').map((node) => node.taskId),
  ];
  return (
    <>
      {info.write && isOwn && !isOver && !held && (
        <button type="button" class="main" onClick={tried(() => act('resume', {}))}>
          Resume
        </button>
      )}
      {info.write && isRoot && (state === 'failed' || state === 'canceled') && (
        <button type="button" class="main" onClick={tried(() => act('retry', {}))}>
          Retry
        </button>
      )}
      {info.write && !isOver && (
        <Dialog
          title="Steer the turn"
          label="Steer"
          submit="Send"
          onSubmit={(form) => act('steer', { text: form.get('text') })}
        >
          <label>
            A message that the model reads before its next call
            <textarea name="text" rows={4} required />
          </label>
        </Dialog>
      )}
      {info.write && (
        <Dialog title="Fork the turn" label="Fork" submit="Fork" onSubmit={(form) => act('fork', forkOf(form))}>
          <label>
            Keep the iterations up to
            <input name="at" type="number" min={0} max={iteration} value={Math.max(0, iteration - 1)} required />
          </label>
          <label>
            Add a message (optional)
            <textarea name="append" rows={3} />
          </label>
          <label>
            Other edits, as JSON (optional)
            <textarea name="edits" rows={3} class="code" placeholder={'{"results":{"1:0":{"content":"…"}}}'} />
          </label>
        </Dialog>
      )}
      {info.write && isRoot && !isOver && (
        <Dialog
          title="Cancel the turn?"
          label="Cancel"
          submit="Cancel the turn"
          tone="bad"
          onSubmit={(form) => act('cancel', { reason: form.get('reason') || undefined })}
        >
          <label>
            Reason (optional)
            <input name="reason" type="text" autocomplete="off" />
          </label>
        </Dialog>
      )}
      {isOwn && (
        <button type="button" onClick={tried(async () => onReplay(await get<ReplayReport>(`${path}/replay`)))}>
          Replay
        </button>
      )}
      <Dialog
        title="Compare with another turn"
        label="Compare"
        submit="Compare"
        onSubmit={async (form) => goTo(['compare', taskId, String(form.get('with')).trim()])}
      >
        <label>
          Id of the other turn
          <input name="with" type="text" list="near" autocomplete="off" required value={near[0] ?? ''} />
        </label>
        <datalist id="near">
          {near.map((id) => (
            <option key={id} value={id} />
          ))}
        </datalist>
      </Dialog>
      <Fault error={error} />
    </>
  );
}

function forkOf(form: FormData): object {
  const append = String(form.get('append')).trim();
  const given = String(form.get('edits')).trim();
  const edits = {
    ...(given === '' ? {} : JSON.parse(given)),
    ...(append !== '' && { append: [{ role: 'user', content: append }] }),
  };
  return { at: Number(form.get('at')), ...(Object.keys(edits).length > 0 && { edits }) };
}
