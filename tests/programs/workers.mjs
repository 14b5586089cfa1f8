// Node's worker threads and libuv's pool, with totals that do not depend on timing.
import { createHash, pbkdf2 } from "node:crypto";
import { mkdtempSync, promises as files } from "node:fs";
import { promisify } from "node:util";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { deflate, inflate } from "node:zlib";

const WORKERS = 4;
const ROUNDS = 3000;
const [TOTAL, GUARD, GUARDED, FINISHED] = [0, 1, 2, 3];

// A mutex of its own on a shared word: 0 is free, 1 held, 2 held with sleepers.
function acquire(shared) {
    let seen = Atomics.compareExchange(shared, GUARD, 0, 1);
    while (seen !== 0) {
        if (seen === 2 || Atomics.compareExchange(shared, GUARD, 1, 2) !== 0) {
            Atomics.wait(shared, GUARD, 2);
        }
        seen = Atomics.compareExchange(shared, GUARD, 0, 2);
    }
}

function release(shared) {
    if (Atomics.exchange(shared, GUARD, 0) === 2) {
        Atomics.notify(shared, GUARD, 1);
    }
}

function work() {
    const shared = new Int32Array(workerData);
    for (let round = 0; round < ROUNDS; round++) {
        Atomics.add(shared, TOTAL, 1);
        acquire(shared);
        shared[GUARDED] += 2; // not atomic: the mutex guards it
        release(shared);
    }
    parentPort.on("message", (message) => {
        if (message === null) {
            Atomics.add(shared, FINISHED, 1);
            parentPort.close();
        } else {
            const squares = message.map((value) => value * value);
            parentPort.postMessage(squares, [squares.buffer]);
        }
    });
    parentPort.postMessage("ready");
}

function messages(worker, count) {
    let [sent, sum] = [0, 0];
    return new Promise((resolve, reject) => {
        worker.on("error", reject);
        worker.on("message", (message) => {
            if (message !== "ready") {
                sum += message.reduce((a, b) => a + b, 0);
            }
            if (sent === count) {
                worker.postMessage(null);
            } else {
                worker.postMessage(Float64Array.from({ length: 100 }, (_, n) => n + sent));
                sent++;
            }
        });
        worker.on("exit", (code) => (code === 0 ? resolve(sum) : reject(new Error(`a worker ended with ${code}`))));
    });
}

async function pool(directory) {
    const hash = createHash("sha256");
    const derived = Array.from({ length: 40 }, (_, n) => promisify(pbkdf2)("secret", `salt ${n}`, 200, 32, "sha256"));
    const data = Array.from({ length: 40 }, (_, n) => Buffer.alloc(20000, `${n} `));
    const packed = Promise.all(data.map(async (one) => promisify(inflate)(await promisify(deflate)(one))));
    const stored = Promise.all(
        data.map(async (one, n) => {
            await files.writeFile(`${directory}/${n}`, one);
            return files.readFile(`${directory}/${n}`);
        }),
    );
    for (const part of [await Promise.all(derived), await packed, await stored]) {
        part.forEach((one) => hash.update(one));
    }
    return hash.digest("hex");
}

if (isMainThread) {
    const shared = new Int32Array(new SharedArrayBuffer(16));
    const self = new URL(import.meta.url);
    const workers = Array.from({ length: WORKERS }, () => new Worker(self, { workerData: shared.buffer }));
    const [sums, hash] = await Promise.all([
        Promise.all(workers.map((worker) => messages(worker, 300))),
        pool(mkdtempSync(`${process.argv[2]}/`)),
    ]);
    console.log("atomics", shared[TOTAL], "guarded", shared[GUARDED], "finished", shared[FINISHED]);
    console.log("messages", sums.join(" "));
    console.log("pool", hash);
    // Workers that are stopped in the middle of their work.
    const endless = "while (true) { new Array(100).fill(0).map(String); }";
    const stopped = Array.from({ length: WORKERS }, () => new Worker(endless, { eval: true }));
    await new Promise((resolve) => setTimeout(resolve, 50));
    console.log("stopped", (await Promise.all(stopped.map((worker) => worker.terminate()))).length);
} else {
    work();
}
