import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CreateBucketCommand, S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { eventually } from '../../eventually.ts';
import { freePort } from '../../stores/redis/free-port.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
/** The Python that Debian's packages are for, whatever else is first in the path. */
const python = '/usr/bin/python3';
const backends = ['account', 'container', 'object'] as const;

/** A test run that is broken off leaves no server behind. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** OpenStack's object server with its S3 in front, on free ports of the loopback interface, on one disk in a folder of its own. */
export class SwiftProcess {
  readonly port: number;
  readonly #folder: string;
  readonly #children: readonly ChildProcess[];

  constructor(port: number, folder: string, children: readonly ChildProcess[]) {
    this.port = port;
    this.#folder = folder;
    this.#children = children;
  }

  /** What an S3 client connects with. The port may be that of a proxy in front. */
  config(port = this.port): S3ClientConfig {
    return {
      endpoint: `http://127.0.0.1:${port}`,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials: { accessKeyId: 'test:tester', secretAccessKey: 'testing' },
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    };
  }

  /** A client for which the server keeps `If-None-Match` of a PUT. */
  conditionalClient(port?: number): S3Client {
    return this.#clientWithout('if-none-match', port, { 'x-if-none-match': '*' });
  }

  /** A client as that of a server which takes no notice of `If-None-Match`. */
  carelessClient(): S3Client {
    return this.#clientWithout('if-none-match');
  }

  /** One that leaves a header out before the request is signed, and sends others in its place. */
  #clientWithout(header: string, port?: number, others: Readonly<Record<string, string>> = {}): S3Client {
    const client = new S3Client(this.config(port));
    client.middlewareStack.add(
      (next) => (args) => {
        const { request } = args;
        if (isRequest(request) && header in request.headers) {
          delete request.headers[header];
          Object.assign(request.headers, others);
        }
        return next(args);
      },
      { step: 'build', priority: 'low' },
    );
    return client;
  }

  async makeBucket(name: string): Promise<string> {
    const client = new S3Client(this.config());
    await client.send(new CreateBucketCommand({ Bucket: name }));
    client.destroy();
    return name;
  }

  async remove(): Promise<void> {
    const gone = this.#children.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
    const ends = gone.map((child) => once(child, 'exit'));
    for (const child of gone) child.kill('SIGKILL');
    await Promise.all(ends);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

interface HeaderRequest {
  readonly headers: Record<string, string>;
}

function isRequest(request: unknown): request is HeaderRequest {
  return typeof request === 'object' && request !== null && 'headers' in request;
}

/** Starts it and waits until it answers. */
export async function startSwift(): Promise<SwiftProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-swift-'));
  mkdirSync(join(folder, 'srv', 'disk'), { recursive: true });
  const [proxy = 0, memcached = 0, ...ports] = await freePorts(5);
  writeConfiguration(folder, proxy, memcached, ports);
  const rings = spawnSync(python, [join(here, 'rings.py'), folder, ...ports.map(String)], { encoding: 'utf8' });
  if (rings.status !== 0) throw new Error(`Swift's rings were not built:\n${rings.stderr}`);
  const start = (command: string, args: readonly string[], name: string): ChildProcess => {
    const log = openSync(join(folder, `${name}.log`), 'a');
    const child = spawn(command, args, { stdio: ['ignore', log, log], env: { ...process.env, PYTHONPATH: here } });
    running.add(child);
    child.once('exit', () => running.delete(child));
    return child;
  };
  const user = process.getuid?.() === 0 ? ['-u', 'root'] : [];
  const children = [
    start('memcached', [...user, '-l', '127.0.0.1', '-p', String(memcached), '-U', '0'], 'memcached'),
    ...[...backends, 'proxy'].map((name) =>
      start(python, [`/usr/bin/swift-${name}-server`, join(folder, `${name}-server.conf`)], name),
    ),
  ];
  const swift = new SwiftProcess(proxy, folder, children);
  if (await answers(proxy, children)) return swift;
  const logs = readdirSync(folder).filter((file) => file.endsWith('.log'));
  const said = logs.map((file) => `${file}: ${readFileSync(join(folder, file), 'utf8')}`);
  await swift.remove();
  throw new Error(`Swift did not start:\n${said.join('\n')}`);
}

/** Whether it serves requests, in the end; not where one of its processes has ended. */
async function answers(port: number, children: readonly ChildProcess[]): Promise<boolean> {
  const client = new S3Client({ ...new SwiftProcess(port, '', []).config(), maxAttempts: 1 });
  const isOver = () => children.some(({ exitCode }) => exitCode !== null);
  const isServed = async () => {
    await client.send(new CreateBucketCommand({ Bucket: 'started' }));
    return true;
  };
  await eventually(async () => isOver() || (await isServed().catch(() => false)));
  client.destroy();
  return !isOver();
}

function writeConfiguration(folder: string, proxy: number, memcached: number, ports: readonly number[]): void {
  const common = (port: number) => `[DEFAULT]
swift_dir = ${folder}
bind_ip = 127.0.0.1
bind_port = ${port}
workers = 0
user = ${process.env['USER'] ?? 'root'}
log_level = ERROR
log_address = ${folder}/nobody-listens
`;
  const write = (file: string, text: string) => writeFileSync(join(folder, file), text);
  write('swift.conf', '[swift-hash]\nswift_hash_path_suffix = test\n[storage-policy:0]\nname = only\ndefault = yes\n');
  for (const [index, name] of backends.entries()) {
    write(
      `${name}-server.conf`,
      `${common(ports[index] ?? 0)}devices = ${folder}/srv
mount_check = false
[pipeline:main]
pipeline = ${name}-server
[app:${name}-server]
use = egg:swift#${name}
[${name}-replicator]
`,
    );
  }
  write(
    'proxy-server.conf',
    `${common(proxy)}[pipeline:main]
pipeline = catch_errors cache s3api tempauth conditional slo dlo proxy-server
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:${memcached}
[filter:s3api]
use = egg:swift#s3api
s3_acl = false
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:conditional]
paste.filter_factory = conditional_put:filter_factory
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
`,
  );
}

async function freePorts(count: number): Promise<readonly number[]> {
  const ports = new Set<number>();
  while (ports.size < count) ports.add(await freePort());
  return [...ports];
}
