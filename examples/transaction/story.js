/** The story that every example of a transaction tells: a payment and its record in one commit. */

/**
 * @typedef {object} Payment
 * @property {string} order
 * @property {number} amount
 * @property {"wait" | "reject"} [onPending]
 * @property {() => Promise<void>} [beforeCommit] called when the payment is written, and not yet committed
 */

/**
 * @param {(payment: Payment) => Promise<{ readonly paid: number }>} pay throws after its write if the amount is over 100
 * @param {() => Promise<readonly (readonly [order: string, amount: number])[]>} readPayments
 */
export async function tellStory(pay, readPayments) {
  const clicks = await Promise.all([
    pay({ order: "order-1", amount: 42 }),
    pay({ order: "order-1", amount: 42 }),
  ]);
  console.log(`two clicks: paid ${clicks.map(({ paid }) => paid).join(" and ")}`);
  const { paid } = await pay({ order: "order-1", amount: 42 });
  console.log(`clicked again: paid ${paid}`);

  await pay({ order: "order-2", amount: 4200 }).catch((error) => console.log(`too much: ${error.message}`));

  const [written, commit] = [createGate(), createGate()];
  const slow = pay({
    order: "order-3",
    amount: 7,
    async beforeCommit() {
      written.open();
      await commit.isOpen;
    },
  });
  await Promise.race([written.isOpen, slow]);
  const duplicate = pay({ order: "order-3", amount: 7, onPending: "reject" });
  await duplicate.catch((error) => console.log(`while it runs: ${error.code}`));
  commit.open();
  await slow;

  const payments = await readPayments();
  const lines = payments.map(([order, amount]) => `${order} ${amount}`).sort();
  console.log(`payments: ${lines.join(", ")}`);
}

function createGate() {
  /** @type {() => void} */
  let open = () => {};
  const isOpen = new Promise((resolve) => {
    open = () => resolve(undefined);
  });
  return { open, isOpen };
}
