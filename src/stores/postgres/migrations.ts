/**
 * The tables, as numbered steps: the n-th brings a database from version n - 1 to n. A step that was released is never changed. `$S` stands for
 * the schema.
 *
 * `task` has no index on what every append changes (`seq`, `expires`, `updated_at`, `bytes`), so that its updates stay in the page (HOT).
 * `row` holds what the other stores keep. Records are `text`: `jsonb` refuses U+0000 and does not keep the bytes.
 */
export const migrations: readonly string[] = [
  `
create table $S.task (
  task_id text collate "C" primary key,
  n bigserial not null,
  context_id text collate "C" not null,
  context_group text collate "C",
  agent_id text collate "C" not null,
  parent_id text collate "C",
  schema int not null,
  state text collate "C" not null,
  ended boolean not null default false,
  seq int not null,
  call_seq int not null default 0,
  commands int not null default 0,
  bytes bigint not null,
  epoch bigint not null default 0,
  owner text collate "C",
  nonce text collate "C",
  expires bigint not null default 0,
  lease_ms bigint not null default 0,
  abandoned_at bigint,
  under_id text collate "C",
  under_epoch bigint,
  created_at bigint not null,
  updated_at bigint not null,
  status_at bigint not null,
  delete_at bigint
) with (fillfactor = 70);
create unique index task_n on $S.task (n desc);
create index task_state on $S.task (state, n desc);
create index task_context on $S.task (md5(context_id), n desc);
create index task_parent on $S.task (parent_id, n desc) where parent_id is not null;
create index task_group on $S.task (md5(context_group), status_at desc, task_id desc) where context_group is not null;
create index task_open on $S.task (n desc) where state in ('submitted', 'working');
create index task_delete_at on $S.task (delete_at) where delete_at is not null;

create table $S.record (
  task_id text collate "C" not null references $S.task on delete cascade,
  seq int not null,
  record text not null,
  primary key (task_id, seq)
);

create table $S.command (
  task_id text collate "C" not null references $S.task on delete cascade,
  n int not null,
  id text collate "C" not null,
  command text not null,
  primary key (task_id, n),
  unique (task_id, id)
);

create unlogged table $S.delta (
  n bigserial primary key,
  task_id text collate "C" not null,
  seq int not null,
  epoch bigint not null,
  deltas text not null
);
create index delta_task on $S.delta (task_id, n);
`,
  `
create table $S.row (
  key bytea primary key,
  value text not null
);
`,
];
