"""Inference: ESIM on JSON lines of SNLI. Prints accuracy."""

from common import recipe

main = recipe("inference", __doc__, epochs=5, lr=0.003)

if __name__ == "__main__":
    main()
