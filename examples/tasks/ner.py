"""Entities: a biLSTM-CRF on files in CoNLL's columns, as WNUT17. Prints F1 of whole entities."""

from common import recipe

main = recipe("ner", __doc__, epochs=20, lr=0.01)

if __name__ == "__main__":
    main()
